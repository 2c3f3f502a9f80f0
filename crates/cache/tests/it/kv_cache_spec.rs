//! Names and arguments as users write them: what is taken, and what is refused in which words.

use terrace_cache::policy::{
    KvCacheOptions, KvCacheSpec, Opening, Policies, PolicyError, RecentRule, Rule, ScoredRule,
    SlotShape, TokenText,
};
use terrace_device::DType;

/// `name key=value ..` of a model of three layers, with 64 slots and chunks of 8 by default.
fn spec(words: &str) -> Result<KvCacheSpec, PolicyError> {
    let mut words = words.split_whitespace();
    let mut options = KvCacheOptions::dense(64);
    options.set("name", words.next().expect("a name"))?;
    options.set("chunk_size", "8")?;
    for (key, value) in words.map(|word| word.split_once('=').expect("key=value")) {
        options.set(key, value)?;
    }
    KvCacheSpec::new(&options, &Policies::built_in(), &[[16; 2]; 3])
}

#[track_caller]
fn refused(words: &str, want: &str) {
    let error = spec(words).expect_err(words).to_string();
    assert!(error.contains(want), "{words}: {error}");
}

#[test]
fn every_policy_goes_with_every_buffer() {
    let buffers = [
        "default",
        "torch-quantized8",
        "torch-quantized4",
        "bnb-quantized8",
        "bnb-quantized4",
        "fp8",
        "fp8+torch-quantized4",
    ];
    for policy in Policies::built_in().names() {
        for buffer in buffers {
            let name = format!("{policy}-{buffer}");
            let regex =
                if policy == "smart-lastrec" { "cache_kwargs.end_initial_regex=x" } else { "" };
            match spec(&format!("{name} {regex}")) {
                Ok(spec) => assert_eq!(spec.name(), name),
                Err(error) => assert!(policy.starts_with('q') && buffer == "default", "{error}"),
            }
        }
    }
}

#[test]
fn unknown_names_are_refused_with_those_that_are_known() {
    let all = "policies: dense, lastrec, smart-lastrec, h2o, h2o-vlen, qh2o, qh2o-vlen, h2o-orig, \
               streamingllm; buffers: default, torch-quantized8, torch-quantized4, bnb-quantized8, \
               bnb-quantized4, fp8";
    for name in ["h2o", "h2o-", "h3o-default", "h2o-int8", "h2o-fp8+", "-default", "h2o-vlen"] {
        refused(name, all);
    }
    refused("h2o-default compat=other", "compat is \"other\": it must be left out, or");
}

#[test]
fn a_policy_of_errors_needs_a_quantiser() {
    refused(
        "qh2o-default",
        "use one of torch-quantized8, torch-quantized4, bnb-quantized8, bnb-quantized4, fp8",
    );
    refused("qh2o-vlen-default", "qh2o-vlen weighs what storing a token changes");
    assert!(spec("qh2o-default+fp8").is_ok());
}

#[test]
fn old_names_are_taken_with_a_note() {
    let old = spec("lastrec-ao-quantized4").expect("an alias");
    assert_eq!(old.name(), "lastrec-torch-quantized4");
    assert!(old.notes[0].starts_with("ao-quantized4 is stored as torch-quantized4"));
    assert!(spec("lastrec-torch-quantized4").expect("a name").notes.is_empty());
}

#[test]
fn arguments_that_do_not_apply_are_refused() {
    refused(
        "dense-default cache_kwargs.grace_period=3",
        "dense has no argument \"grace_period\": it takes none",
    );
    refused(
        "lastrec-default cache_kwargs.normalize_scores=true",
        "lastrec has no argument \"normalize_scores\": it takes init_grace_tokens",
    );
    refused("h2o-orig-default cache_kwargs.grace_period=3", "it takes init_grace_tokens");
    refused(
        "h2o-default cache_kwargs.combination_constant=0.5",
        "has no argument \"combination_constant\"",
    );
    refused(
        "h2o-default compat=keys_values cache_kwargs.init_grace_tokens=2",
        "init_grace_tokens of h2o cannot",
    );
    refused("streamingllm-default compat=keys_values", "streamingllm cannot go with compat");
    refused("smart-lastrec-default", "smart-lastrec needs the argument \"end_initial_regex\"");
    refused(
        "smart-lastrec-default cache_kwargs.end_initial_regex=x cache_kwargs.range_is_prefix=false",
        "compat = ",
    );
    let padded = "smart-lastrec-default cache_kwargs.end_initial_regex=x cache_kwargs.pad_id=7";
    refused(padded, "compat = ");
    assert!(spec(&format!("{padded} compat=keys_values")).is_ok());
}

#[test]
fn unknown_options_are_refused_with_those_that_are_known() {
    refused(
        "dense-default cache_lenght=3",
        "no option kv_cache.cache_lenght: options are name, cache_length, chunk_size, \
         randomize_chunk_sizes, compat, cache_kwargs.*, grace_period",
    );
    refused("dense-default cache_length=3,x", "kv_cache.cache_length is \"x\": it must be a whole");
    refused("dense-default randomize_chunk_sizes=1", "it must be true or false");
    let beside = spec("h2o-default grace_period=5").expect("a spec").rule(64);
    let nested = spec("h2o-default cache_kwargs.grace_period=5").expect("a spec").rule(64);
    assert_eq!(beside, nested);
}

#[test]
fn values_out_of_range_are_refused() {
    refused(
        "h2o-default cache_kwargs.grace_period=-1",
        "grace_period is -1: it must be a whole number",
    );
    refused("h2o-default cache_kwargs.grace_period=2.5", "a whole number");
    refused("h2o-default cache_kwargs.keep_initial_fraction=1", "a number from 0 and below 1");
    refused("h2o-default cache_kwargs.normalize_scores=3", "true or false");
    refused("qh2o-fp8 cache_kwargs.combination_constant=1.5", "a number from 0 to 1");
    refused("h2o-default cache_kwargs.max_chunk_size=33", "from 1 to 32, half of the 64 slots");
    refused("smart-lastrec-default cache_kwargs.end_initial_regex=(", "a regular expression");
    let most = usize::MAX;
    refused(&format!("h2o-default cache_length={most}"), "up to 2147483647");
    refused(&format!("h2o-default chunk_size={most}"), "up to 2147483647");
    refused("h2o-default cache_kwargs.init_grace_tokens=1e300", "from 0 to 2147483647");
    refused(
        "h2o-default cache_kwargs.init_grace_tokens=2147483647 \
         cache_kwargs.grace_period=2147483647",
        "nothing could be evicted",
    );
    refused("h2o-default chunk_size=0", "kv_cache.chunk_size is 0: it must be 1 or more");
    refused("h2o-default cache_length=0", "kv_cache.cache_length is 0");
    refused("h2o-default cache_length=64,64", "2 values of kv_cache.cache_length for 3 layers");
}

#[test]
fn chunks_must_leave_room() {
    refused(
        "h2o-default cache_kwargs.grace_period=60",
        "nothing could be evicted from 64 slots: 8 first",
    );
    refused("h2o-default chunk_size=41", "only 40 can be evicted from 64 slots at once");
    assert!(spec("h2o-default chunk_size=40").is_ok());
    refused("h2o-default grace_period=0 chunk_size=57", "only 56 can be evicted");
    assert!(spec("h2o-default grace_period=0 chunk_size=56").is_ok());
    refused("h2o-default chunk_size=50 randomize_chunk_sizes=true", "chunks may have 75 tokens");
    // A chunk may be longer by four to end where a longer cache becomes full.
    refused("h2o-default cache_length=64,80,64 chunk_size=37", "chunks may have 41 tokens");
    refused("h2o-default cache_kwargs.max_chunk_size=4", "only 4 can be evicted");
    assert!(spec("dense-default chunk_size=100").is_ok());
}

/// The message said to make grace_period smaller, whatever kept the chunk from fitting.
#[test]
fn a_chunk_as_long_as_the_cache_works_unless_something_is_protected() {
    for words in [
        "lastrec-default init_grace_tokens=0",
        "streamingllm-default init_grace_tokens=0",
        "h2o-default init_grace_tokens=0 grace_period=0",
        "qh2o-fp8 init_grace_tokens=0 grace_period=0",
        "h2o-orig-default",
    ] {
        let whole = spec(&format!("{words} chunk_size=64")).expect(words);
        assert_eq!(whole.chunk_plan(200, 0), [64, 64, 64, 8], "{words}");
    }
    let smart = "smart-lastrec-default cache_kwargs.end_initial_regex=x";
    for (words, smaller) in [
        ("lastrec-default", "init_grace_tokens (8)"),
        ("streamingllm-fp8", "init_grace_tokens (4)"),
        ("h2o-default", "init_grace_tokens (8) or grace_period (16)"),
        ("h2o-default init_grace_tokens=0", "grace_period (16)"),
        ("h2o-default grace_period=0", "init_grace_tokens (8)"),
        ("h2o-orig-default init_grace_tokens=3", "init_grace_tokens (3)"),
        (smart, "max_initial_fraction (32 tokens)"),
    ] {
        let want = format!(": make kv_cache.chunk_size or {smaller} smaller, or kv_cache.cache_");
        refused(&format!("{words} chunk_size=64"), &want);
    }
    let longer = ": make kv_cache.chunk_size smaller, or kv_cache.cache_length larger";
    refused("h2o-orig-default chunk_size=65", longer);
    let limited = "h2o-default init_grace_tokens=0 grace_period=0 cache_kwargs.max_chunk_size=4";
    refused(limited, ": make kv_cache.chunk_size or max_chunk_size (4) smaller");
}

#[test]
fn first_tokens_are_protected_by_default() {
    let protected =
        |words: &str, slots: usize| match spec(words).expect(words).rule(slots).expect(words) {
            Rule::Keep => slots,
            Rule::Recent(rule) => rule.protected_tokens,
            Rule::Scored(rule) => rule.protected_tokens,
        };
    for policy in ["lastrec-fp8", "h2o-fp8", "h2o-vlen-fp8", "qh2o-fp8"] {
        assert_eq!(protected(policy, 64), 8, "{policy}");
        assert_eq!(protected(policy, 1000), 16, "{policy}");
        assert_eq!(protected(policy, 6), 1, "{policy}");
        assert_eq!(
            protected(&format!("{policy} cache_kwargs.init_grace_tokens=3"), 64),
            3,
            "{policy}"
        );
    }
    assert_eq!(protected("streamingllm-fp8", 1000), 4);
    assert_eq!(protected("h2o-default compat=keys_values", 64), 0);
    assert_eq!(protected("lastrec-default compat=keys_values", 64), 8);
}

#[test]
fn scores_are_means_and_the_newest_stay_by_default() {
    let scored = |words: &str| match spec(words).expect(words).rule(64).expect(words) {
        Rule::Scored(rule) => (rule.grace_tokens, rule.per_age),
        other => panic!("{words}: {other:?}"),
    };
    for policy in ["h2o-default", "h2o-vlen-fp8", "qh2o-fp8", "qh2o-vlen-fp8"] {
        assert_eq!(scored(policy), (16, true), "{policy}");
        assert_eq!(scored(&format!("{policy} compat=keys_values")), (0, false), "{policy}");
        let given = format!("{policy} grace_period=3 normalize_scores=false");
        assert_eq!(scored(&given), (3, false), "{policy}");
    }
    assert_eq!(scored("h2o-orig-default"), (0, false), "it is the original's");
}

/// It protected a slot in eight, as no published H2O does.
#[test]
fn h2o_orig_is_as_published_unless_asked_otherwise() {
    let rule = |words: &str| spec(words).expect(words).rule(64).expect(words);
    let published = rule("h2o-orig-default compat=keys_values");
    assert_eq!(rule("h2o-orig-default"), published);
    let Rule::Scored(published) = published else { panic!("{published:?}") };
    let protected = Rule::Scored(ScoredRule { protected_tokens: 3, ..published });
    assert_eq!(rule("h2o-orig-default init_grace_tokens=3"), protected);
}

/// With the arguments that docs/kv_cache.md lists, a policy has keys_values' rule; without any one
/// of them it has not, so the list is complete and has no row too many.
#[test]
fn the_manual_lists_the_arguments_that_restore_keys_values_defaults() {
    let manual = include_str!("../../../../docs/kv_cache.md");
    let (_, section) = manual.split_once("### Other defaults").expect("the section");
    let section = section.split("\n#").next().expect("its text");
    let rows = section.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split(" | ").collect();
        let restored = cells[3].trim_end_matches(" |").trim_matches('`');
        Some((cells[1], restored.strip_prefix("kv_cache.")?.split_once(" = ")?))
    });
    let rows: Vec<(&str, (&str, &str))> = rows.collect();
    let rule = |words: &str| spec(words).expect(words).rule(64).expect(words);
    for policy in Policies::built_in().names() {
        // What is not in keys_values at all, and what it takes for a defect of its own.
        if policy == "streamingllm" || policy == "qh2o-vlen" {
            continue;
        }
        let mut name = format!("{policy}-fp8");
        if policy == "smart-lastrec" {
            name += " cache_kwargs.end_initial_regex=x";
        }
        let listed: Vec<_> =
            rows.iter().filter(|(policies, _)| policies.contains(&format!("`{policy}`"))).collect();
        let with = |arguments: &[&(&str, (&str, &str))]| {
            let words = arguments.iter().map(|(_, (key, value))| format!(" {key}={value}"));
            rule(&(name.clone() + &words.collect::<String>()))
        };
        let there = rule(&format!("{name} compat=keys_values"));
        assert_eq!(with(&listed), there, "{policy}: the list does not restore it");
        for left_out in 0..listed.len() {
            let mut fewer = listed.clone();
            let (_, (key, _)) = fewer.remove(left_out);
            assert_ne!(with(&fewer), there, "{policy}: {key} is listed and changes nothing");
        }
    }
}

#[test]
fn memory_is_what_a_slot_stores() {
    let shape = SlotShape { kv_heads: 3, key_dim: 64, value_dim: 64, plain: DType::Bf16 };
    for (name, key, value, numbers) in [
        ("dense-default", 128, 128, 1),
        ("lastrec-torch-quantized8", 72, 72, 1),
        ("h2o-torch-quantized4", 40, 40, 2),
        ("h2o-vlen-bnb-quantized8", 68, 68, 3),
        ("qh2o-bnb-quantized4", 36, 36, 3),
        ("qh2o-vlen-fp8+default", 68, 128, 4),
    ] {
        let spec = spec(&format!("{name} cache_length=64,80,64")).expect(name);
        let layout = spec.slot_layout(64, 3, &shape).expect(name);
        assert_eq!(layout.slot_bytes(), key + value + 4 * numbers, "{name}");
        let page_bytes = 40 * 3 * 3 * layout.slot_bytes();
        let slots = layout.fitting(page_bytes).expect(name).page_slots;
        // Arrays are filled up to 16 bytes, which may cost the last slot.
        assert!((39..=40).contains(&slots), "{name}: {slots} slots");
    }
}

/// Each token is a word and a space.
struct Words;

impl TokenText for Words {
    fn decode(&self, tokens: &[u32]) -> String {
        tokens.iter().map(|token| format!("{} ", "x".repeat(*token as usize))).collect()
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        text.split_whitespace().map(|word| word.len() as u32).collect()
    }
}

#[test]
fn a_segment_of_the_text_stays() {
    let tokens = [2, 3, 1, 5, 9, 4, 4, 9, 1, 1];
    let opening = Opening { tokens: &tokens, text: Some(&Words) };
    for (args, want) in [
        ("cache_kwargs.end_initial_regex=x{9}", 5),
        ("cache_kwargs.end_initial_regex=x{9} cache_kwargs.include_end_string=false", 4),
        // No more of the slots than the share it may take.
        ("cache_kwargs.end_initial_regex=x{9} cache_kwargs.max_initial_fraction=0.05", 3),
        ("cache_kwargs.end_initial_regex=never", 10),
        ("cache_kwargs.end_initial_regex=^ cache_kwargs.include_end_string=false", 1),
    ] {
        let spec = spec(&format!("smart-lastrec-default {args}")).expect(args);
        let rule = spec.rule(64).expect(args).for_sequence(&opening).expect(args);
        let Rule::Recent(RecentRule { protected_tokens, text_segment: None, .. }) = rule else {
            panic!("{args}: {rule:?}");
        };
        assert_eq!(protected_tokens, want, "{args}");
    }
    let spec = spec("smart-lastrec-default cache_kwargs.end_initial_regex=x").expect("a spec");
    let silent = Opening { tokens: &tokens, text: None };
    let error = spec.rule(64).expect("a rule").for_sequence(&silent).expect_err("no text");
    assert_eq!(
        error.to_string(),
        "the protected text cannot be found: the sequence has no tokenizer"
    );
}

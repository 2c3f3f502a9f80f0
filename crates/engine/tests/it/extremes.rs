//! Numbers of a request at their limits and beyond: each gives an error or an output, and never a
//! panic, an overflow (tests check for them) or memory in proportion to a number nobody checked.

use std::cell::{Cell, RefCell};

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use terrace_engine::text::{GenerationConfig, TextFinish, TextRequest};
use terrace_engine::{
    Error, Failure, InferenceConfig, InferenceEngine, KwArg, Lengths, Priority, RequestedKvCache,
    TokenId,
};

use crate::tiny_model::{config, finish, tiny};

const MAX_NEW_TOKENS: usize = 4;
const PROMPT_TOKENS: usize = 21;
const CHOICES: usize = 3;

const COUNTS: [usize; 20] = [
    0,
    1,
    2,
    3,
    CHOICES + 1,
    7,
    8,
    20,
    PROMPT_TOKENS,
    PROMPT_TOKENS + 1,
    319,
    320,
    1 << 20,
    i32::MAX as usize - 1,
    i32::MAX as usize,
    i32::MAX as usize + 1,
    u32::MAX as usize,
    i64::MAX as usize,
    usize::MAX - 1,
    usize::MAX,
];

const NUMBERS: [f32; 19] = [
    0.0,
    -0.0,
    f32::from_bits(1),
    f32::MIN_POSITIVE,
    f32::EPSILON,
    0.5,
    0.999_999_94,
    1.0,
    1.000_000_1,
    2.0,
    100.0,
    -1.0,
    -2.0,
    -100.0,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

/// Some evict, some only store in fewer bits; the first says nothing.
const CACHES: [Option<&str>; 8] = [
    None,
    Some("dense-torch-quantized4"),
    Some("lastrec-default"),
    Some("streamingllm-fp8"),
    Some("smart-lastrec-default"),
    Some("h2o-torch-quantized8"),
    Some("qh2o-vlen-bnb-quantized8"),
    Some("h2o-orig-default"),
];

type SetCount = fn(&mut TextRequest, usize);
type SetNumber = fn(&mut TextRequest, f32);

/// Every field that counts something or names a token.
const COUNT_FIELDS: [(&str, SetCount); 17] = [
    ("top_k", |it, count| it.generation.top_k = Some(count)),
    ("no_repeat_ngram_size", |it, count| it.generation.no_repeat_ngram_size = Some(count)),
    ("forced_eos_token_id", |it, count| {
        it.generation.forced_eos_token_id = Some(count as TokenId);
    }),
    ("logit_bias id", |it, count| {
        it.generation.logit_bias = Some(vec![(count as TokenId, 1.0), (3, -1.0)]);
    }),
    ("seed", |it, count| it.generation.seed = Some(count as u64)),
    ("stop_token_ids", |it, count| {
        it.generation.stop_token_ids = Some(vec![count as TokenId; 1000]);
    }),
    ("min_new_tokens", |it, count| it.generation.min_new_tokens = Some(count)),
    ("max_new_tokens", |it, count| it.generation.max_new_tokens = Some(count)),
    ("max_length", |it, count| {
        it.generation.max_length = Some(count);
        it.generation.max_new_tokens = None;
    }),
    ("logprobs", |it, count| it.generation.logprobs = Some(count)),
    ("prompt_logprobs", |it, count| it.generation.prompt_logprobs = Some(count)),
    ("n", |it, count| it.generation.n = Some(count)),
    ("default_new_tokens", |it, count| {
        it.default_new_tokens = Some(count);
        it.generation.max_new_tokens = None;
    }),
    ("truncate_prompt_tokens", |it, count| it.truncate_prompt_tokens = Some(count)),
    // The low bits, so that half of them are negative.
    ("priority", |it, count| it.priority = Priority(count as i32)),
    ("priority below 0", |it, count| it.priority = Priority((count as i32).wrapping_neg())),
    ("prompt id", |it, count| it.prompt = vec![count as TokenId; PROMPT_TOKENS].into()),
];

const NUMBER_FIELDS: [(&str, SetNumber); 8] = [
    ("temperature", |it, number| it.generation.temperature = Some(number)),
    ("top_p", |it, number| it.generation.top_p = Some(number)),
    ("min_p", |it, number| it.generation.min_p = Some(number)),
    ("typical_p", |it, number| it.generation.typical_p = Some(number)),
    ("repetition_penalty", |it, number| it.generation.repetition_penalty = Some(number)),
    ("presence_penalty", |it, number| it.generation.presence_penalty = Some(number)),
    ("frequency_penalty", |it, number| it.generation.frequency_penalty = Some(number)),
    ("logit_bias", |it, number| it.generation.logit_bias = Some(vec![(5, number), (6, number)])),
];

/// Options below `kv_cache`, which matter once a cache is named.
const CACHE_COUNT_FIELDS: [(&str, SetCount); 8] = [
    ("cache_length", |it, count| it.kv_cache.cache_length = Some(Lengths::One(count))),
    ("cache_length of each layer", |it, count| {
        it.kv_cache.cache_length = Some(Lengths::EachLayer(vec![16, count, 16]));
    }),
    ("cache_length of some layers", |it, count| {
        it.kv_cache.cache_length = Some(Lengths::EachLayer(vec![count; count.min(2)]));
    }),
    ("chunk_size", |it, count| it.kv_cache.chunk_size = Some(count)),
    ("random chunk_size", |it, count| {
        it.kv_cache.chunk_size = Some(count);
        it.kv_cache.randomize_chunk_sizes = Some(true);
    }),
    ("grace_period", |it, count| it.kv_cache.grace_period = Some(count)),
    ("init_grace_tokens", |it, count| it.kv_cache.init_grace_tokens = Some(count)),
    ("max_chunk_size", |it, count| set_argument(it, "max_chunk_size", count as f64)),
];

const CACHE_NUMBER_FIELDS: [(&str, SetNumber); 6] = [
    ("grace_period", |it, number| set_argument(it, "grace_period", number.into())),
    ("init_grace_tokens", |it, number| set_argument(it, "init_grace_tokens", number.into())),
    ("keep_initial_fraction", |it, number| {
        set_argument(it, "keep_initial_fraction", number.into());
    }),
    ("max_initial_fraction", |it, number| set_argument(it, "max_initial_fraction", number.into())),
    ("combination_constant", |it, number| set_argument(it, "combination_constant", number.into())),
    ("max_chunk_size", |it, number| set_argument(it, "max_chunk_size", number.into())),
];

fn set_argument(request: &mut TextRequest, name: &str, value: f64) {
    request.kv_cache.cache_kwargs.insert(name.to_owned(), KwArg::Number(value));
}

/// A request that is served: sampled, of a prompt that an evicting cache does not hold.
fn request(cache: Option<&str>) -> TextRequest {
    let generation = GenerationConfig {
        do_sample: Some(true),
        max_new_tokens: Some(MAX_NEW_TOKENS),
        ..GenerationConfig::default()
    };
    let prompt: Vec<TokenId> = (3..).take(PROMPT_TOKENS).collect();
    let mut request = TextRequest::new(prompt, generation);
    if let Some(name) = cache {
        // A dense cache must hold all of a sequence.
        let is_dense = name.starts_with("dense");
        let slots = if is_dense { PROMPT_TOKENS + MAX_NEW_TOKENS } else { 16 };
        request.kv_cache = RequestedKvCache {
            name: Some(name.to_owned()),
            cache_length: Some(Lengths::One(slots)),
            chunk_size: Some(2),
            ..RequestedKvCache::default()
        };
        if name.starts_with("smart") {
            let text = KwArg::Text("x".into());
            request.kv_cache.cache_kwargs.insert("end_initial_regex".into(), text);
        }
    }
    request
}

fn engine() -> InferenceEngine {
    let config = InferenceConfig {
        threads: Some(1),
        max_batch_size: CHOICES,
        max_input_len: 32,
        max_output_len: MAX_NEW_TOKENS,
        ..config()
    };
    InferenceEngine::new(tiny(), &config).expect("an engine")
}

/// Runs the request to its end, or gives the error that refused it. Nothing else may happen, and
/// nothing may be left behind.
fn run(engine: &mut InferenceEngine, request: TextRequest, what: &str) -> Result<(), Error> {
    engine.add(request)?;
    let outputs = &finish(engine)[0].outputs;
    assert!((1..=CHOICES).contains(&outputs.len()), "{what}: {} choices", outputs.len());
    for output in outputs {
        assert!(output.token_ids.len() <= MAX_NEW_TOKENS, "{what}: {output:?}");
        let ended =
            matches!(&output.finish, Some(end) if *end != TextFinish::Failed(Failure::Step));
        assert!(ended, "{what}: {output:?}");
    }
    let stats = engine.stats();
    assert_eq!(stats.pages_free, stats.pages_total, "{what}: pages are held");
    Ok(())
}

/// What may be any number.
const FREE: [&str; 4] = ["top_k", "no_repeat_ngram_size", "seed", "default_new_tokens"];

/// Runs the requests, one for each extreme of a field. Some of them must be served, and some
/// refused unless the field is free; with a cache only the field's policies can tell.
fn check(engine: &mut InferenceEngine, field: &str, cache: Option<&str>, requests: &[TextRequest]) {
    let what = format!("{field} with {cache:?}");
    let (mut served, mut refused) = (0, 0);
    for request in requests {
        match run(engine, request.clone(), &what) {
            Ok(()) => served += 1,
            Err(error) => {
                assert!(!matches!(error, Error::Step(_)), "{what}: {error}");
                refused += 1;
            }
        }
    }
    assert!(cache.is_some() || served > 0, "{what}: nothing is served");
    assert!(cache.is_some() || refused > 0 || FREE.contains(&field), "{what}: all is served");
}

fn with(cache: Option<&str>, set: impl Fn(&mut TextRequest)) -> TextRequest {
    let mut request = request(cache);
    set(&mut request);
    request
}

#[test]
fn each_field_at_each_extreme_is_refused_or_served() {
    let engine = &mut engine();
    for (field, set) in COUNT_FIELDS {
        check(engine, field, None, &COUNTS.map(|count| with(None, |it| set(it, count))));
    }
    for (field, set) in NUMBER_FIELDS {
        check(engine, field, None, &NUMBERS.map(|number| with(None, |it| set(it, number))));
    }
}

#[test]
fn each_cache_at_each_extreme_is_refused_or_served() {
    let engine = &mut engine();
    for cache in CACHES.into_iter().filter(Option::is_some) {
        run(engine, request(cache), "as it is").expect("a cache that is served");
        for (field, set) in CACHE_COUNT_FIELDS {
            check(engine, field, cache, &COUNTS.map(|count| with(cache, |it| set(it, count))));
        }
        for (field, set) in CACHE_NUMBER_FIELDS {
            check(engine, field, cache, &NUMBERS.map(|number| with(cache, |it| set(it, number))));
        }
    }
}

/// A field set to an extreme, with its name and value for who reads a failure.
#[derive(Clone, Copy, Debug)]
enum Setting {
    Count(&'static str, SetCount, usize),
    Number(&'static str, SetNumber, f32),
}

fn settings() -> Vec<Setting> {
    let counts = COUNT_FIELDS.into_iter().chain(CACHE_COUNT_FIELDS);
    let counts = counts.flat_map(|(name, set)| COUNTS.map(|it| Setting::Count(name, set, it)));
    let numbers = NUMBER_FIELDS.into_iter().chain(CACHE_NUMBER_FIELDS);
    let numbers = numbers.flat_map(|(name, set)| NUMBERS.map(|it| Setting::Number(name, set, it)));
    counts.chain(numbers).collect()
}

#[test]
fn extremes_together_are_refused_or_served() {
    let settings = prop::collection::vec(select(settings()), 0..5);
    let strategy = (select(CACHES.to_vec()), settings);
    // A panic leaves no engine behind, and the next case makes a new one.
    let idle = RefCell::new(None);
    let (served, refused) = (Cell::new(0), Cell::new(0));
    let mut runner =
        TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let result = runner.run(&strategy, |(cache, settings)| {
        let mut engine = idle.take().unwrap_or_else(engine);
        let mut request = request(cache);
        let mut what = format!("{cache:?}");
        for setting in settings {
            match setting {
                Setting::Count(field, set, count) => {
                    set(&mut request, count);
                    what += &format!(", {field} {count}");
                }
                Setting::Number(field, set, number) => {
                    set(&mut request, number);
                    what += &format!(", {field} {number}");
                }
            }
        }
        let outcome = run(&mut engine, request, &what);
        idle.replace(Some(engine));
        prop_assert!(!matches!(outcome, Err(Error::Step(_))), "{what}: {outcome:?}");
        let count = if outcome.is_ok() { &served } else { &refused };
        count.set(count.get() + 1);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let counts = [served, refused].map(Cell::into_inner);
    println!("{counts:?} served and refused");
    assert!(counts.into_iter().all(|count| 40 < count), "{counts:?} served and refused");
}

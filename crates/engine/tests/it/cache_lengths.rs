//! Caches whose `cache_length` meets the longest sequence, or the chunk.

use terrace_engine::text::{GenerationConfig, TextRequest};
use terrace_engine::{
    ComputeChoice, Error, Generated, InferenceConfig, InferenceEngine, Lengths, RequestedKvCache,
    TokenId,
};

use crate::tiny_model::{config, tiny};

const SLOTS: usize = 40;

fn engine(kv_cache: RequestedKvCache) -> InferenceEngine {
    let config = InferenceConfig { compute: ComputeChoice::F32, kv_cache, ..config() };
    InferenceEngine::new(tiny(), &config).expect("an engine")
}

fn cache(name: &str, slots: usize) -> RequestedKvCache {
    RequestedKvCache {
        name: Some(name.to_owned()),
        cache_length: Some(Lengths::One(slots)),
        ..RequestedKvCache::default()
    }
}

/// A prompt of so many tokens.
fn prompt(tokens: usize) -> Vec<TokenId> {
    (0..tokens).map(|i| 3 + (i * i * 7 % 250) as TokenId).collect()
}

/// Prompts are of so many tokens; `new_tokens` is what the request says.
fn generate(
    engine: &mut InferenceEngine,
    prompt: Vec<TokenId>,
    new_tokens: Option<usize>,
    kv_cache: RequestedKvCache,
) -> Result<Generated, Error> {
    let generation = GenerationConfig {
        max_new_tokens: new_tokens,
        ignore_eos: Some(true),
        ..GenerationConfig::default()
    };
    engine.add(TextRequest { kv_cache, ..TextRequest::new(prompt, generation) })?;
    loop {
        if let Some(generated) = engine.step().pop() {
            return Ok(generated);
        }
    }
}

/// The length was dropped, and a sequence grew beyond it.
#[test]
fn a_dense_cache_is_bounded_by_its_cache_length() {
    let none = RequestedKvCache::default;
    let dense = || RequestedKvCache { name: None, ..cache("", SLOTS) };
    for server in [dense(), cache("dense-default", SLOTS), cache("dense-torch-quantized8", SLOTS)] {
        let mut engine = engine(server);
        let whole = generate(&mut engine, prompt(30), Some(10), none()).expect("it fits");
        assert_eq!(whole.outputs[0].token_ids.len(), 10);
        let open = generate(&mut engine, prompt(30), None, none()).expect("it fits");
        assert_eq!(open.outputs[0].token_ids.len(), 10, "what is left of the cache");
        let error = generate(&mut engine, prompt(30), Some(11), none()).expect_err("one too many");
        let want = "prompt and output may need 41 tokens (30 + 11), but a dense cache keeps all \
                    and has 40 slots; give a larger kv_cache.cache_length or leave it out, ";
        assert!(error.to_string().starts_with(want), "{error}");
        let error = generate(&mut engine, prompt(40), None, none()).expect_err("no room is left");
        assert!(matches!(error, Error::CacheTooShort { prompt: 40, new: 1, slots: 40, .. }));

        // What a request says about its own cache wins.
        let longer = generate(&mut engine, prompt(30), Some(50), cache("dense-default", 80));
        assert_eq!(longer.expect("it fits").outputs[0].token_ids.len(), 50);
        let evicting = generate(&mut engine, prompt(30), Some(50), cache("lastrec-default", SLOTS));
        assert_eq!(evicting.expect("tokens leave").outputs[0].token_ids.len(), 50);
    }
    let mut unbounded = engine(none());
    generate(&mut unbounded, prompt(30), Some(50), none()).expect("the context is the bound");
    let error = generate(&mut unbounded, prompt(30), Some(50), dense()).expect_err("a request's");
    assert!(matches!(error, Error::CacheTooShort { tokens: 80, .. }), "{error}");
    let each = RequestedKvCache {
        cache_length: Some(Lengths::EachLayer(vec![100, 50, 100])),
        ..RequestedKvCache::default()
    };
    let Err(error) = generate(&mut engine(each), prompt(30), Some(21), none()) else {
        panic!("the shortest layer has 50 slots")
    };
    assert!(matches!(error, Error::CacheTooShort { slots: 50, .. }), "{error}");
}

/// As documented by keys_values: then chunks are computed as if they were independent.
#[test]
fn a_chunk_as_long_as_its_cache_sees_no_other_chunk() {
    let with_chunk = |name: &str, arguments: &[(&str, usize)]| {
        let mut cache = RequestedKvCache { chunk_size: Some(SLOTS), ..cache(name, SLOTS) };
        for (argument, value) in arguments {
            match *argument {
                "init_grace_tokens" => cache.init_grace_tokens = Some(*value),
                "grace_period" => cache.grace_period = Some(*value),
                other => panic!("{other}"),
            }
        }
        cache
    };
    let none = RequestedKvCache::default;
    let (unprotected, ungraced) = (("init_grace_tokens", 0), ("grace_period", 0));
    for (cache, same_tokens) in [
        // The oldest leave in both runs.
        (with_chunk("lastrec-default", &[unprotected]), 12),
        // The second chunk's scores are not there in the run of it alone.
        (with_chunk("h2o-default", &[unprotected, ungraced]), 1),
        (with_chunk("h2o-vlen-default", &[unprotected, ungraced]), 1),
        (with_chunk("h2o-orig-default", &[]), 1),
    ] {
        let prompt = prompt(2 * SLOTS);
        let second = prompt[SLOTS..].to_vec();
        let output = |prompt: Vec<TokenId>| {
            let mut engine = engine(cache.clone());
            let generated = generate(&mut engine, prompt, Some(12), none()).expect("an output");
            generated.outputs[0].token_ids.clone()
        };
        let (both, alone) = (output(prompt), output(second));
        assert_eq!(both[..same_tokens], alone[..same_tokens], "{cache:?}");
    }
    let kv_cache = with_chunk("lastrec-default", &[]);
    let config = InferenceConfig { kv_cache, ..InferenceConfig::default() };
    let Err(error) = InferenceEngine::new(tiny(), &config) else {
        panic!("5 tokens are protected")
    };
    assert!(error.to_string().contains("or init_grace_tokens (5) smaller"), "{error}");
}

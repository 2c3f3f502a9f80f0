//! How many of a prompt's tokens were found in the prefix cache, as a stream reports it.

use terrace_engine::text::{GenerationConfig, LanguageModel, TextRequest};
use terrace_engine::{InferenceConfig, TokenId};

use crate::tiny_model::{config, tiny};

const PAGE_TOKENS: usize = 16;

fn model() -> LanguageModel {
    let config = InferenceConfig { block_size: PAGE_TOKENS, ..config() };
    LanguageModel::start(tiny(), &config, || {}).expect("an engine")
}

/// Runs a request of `n` choices to its end; what it reports then.
#[track_caller]
fn cached(model: &LanguageModel, prompt: Vec<TokenId>, n: usize, salt: &str) -> usize {
    let generation = GenerationConfig {
        max_new_tokens: Some(3),
        ignore_eos: Some(true),
        n: Some(n),
        ..GenerationConfig::default()
    };
    let cache_salt = salt.to_owned();
    let request = TextRequest { cache_salt, ..TextRequest::new(prompt, generation) };
    let mut stream = model.submit(request).expect("it fits");
    assert_eq!(stream.cached_tokens(), 0, "nothing has come yet");
    while stream.next_blocking().is_some() {}
    stream.cached_tokens()
}

#[test]
fn whole_pages_of_the_same_prompt_are_cached_the_second_time() {
    let model = model();
    let prompt: Vec<TokenId> = (3..53).collect();
    assert_eq!(cached(&model, prompt.clone(), 1, ""), 0);
    assert_eq!(cached(&model, prompt.clone(), 1, ""), 48);
    // Counted once, before the choices part.
    assert_eq!(cached(&model, prompt.clone(), 3, ""), 48);
    assert_eq!(cached(&model, prompt.clone(), 1, "another salt"), 0);

    // The last token is always computed, so that a prompt of whole pages finds one page less.
    assert_eq!(cached(&model, prompt[..49].to_vec(), 1, ""), 48);
    assert_eq!(cached(&model, prompt[..48].to_vec(), 1, ""), 32);
    let other_end = [&prompt[..40], &[7, 7, 7]].concat();
    assert_eq!(cached(&model, other_end, 1, ""), 32);
}

//! Which options are allowed, what refusals say, and what is decided when nothing is said.

use super::{GenerationConfig, MAX_BAD_WORD_BYTES, MAX_BAD_WORDS, ResolveLimits};
use crate::generate::sampling_params::SamplingParams;
use crate::text::MAX_STOPS;

const LIMITS: ResolveLimits<'static> = ResolveLimits {
    prompt_tokens: 10,
    default_new_tokens: 16,
    max_new_tokens_limit: 64,
    context_tokens: 100,
    eos: &[2, 3],
    vocab: 50,
    random_seed: 99,
    max_choices: 4,
};

fn config() -> GenerationConfig {
    GenerationConfig::default()
}

#[track_caller]
fn resolved(config: GenerationConfig) -> SamplingParams {
    config.resolve(LIMITS).expect("the options are allowed")
}

#[track_caller]
fn refused(config: GenerationConfig, want: &str) {
    let error = config.resolve(LIMITS).expect_err("an option is not allowed");
    assert_eq!(error.to_string(), want);
}

/// Either every value is allowed, or each is refused in the option's name.
#[track_caller]
fn check(option: &str, set: fn(f32) -> GenerationConfig, good: &[f32], bad: &[f32]) {
    for &value in good {
        resolved(set(value));
    }
    for &value in bad {
        let error = set(value).resolve(LIMITS).expect_err("an option is not allowed").to_string();
        assert!(error.starts_with(&format!("{option} is {value}: it must be")), "{error}");
    }
}

#[test]
fn numbers_stay_in_their_ranges() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let some = |value| GenerationConfig { temperature: Some(value), ..config() };
    check("temperature", some, &[0.0, 0.01, 1.0, 5.0], &[-0.1, nan, inf]);
    let some = |value| GenerationConfig { top_p: Some(value), ..config() };
    check("top_p", some, &[0.01, 1.0], &[0.0, -1.0, 1.01, nan]);
    let some = |value| GenerationConfig { min_p: Some(value), ..config() };
    check("min_p", some, &[0.0, 0.99], &[-0.1, 1.0, nan]);
    let some = |value| GenerationConfig { typical_p: Some(value), ..config() };
    check("typical_p", some, &[0.01, 1.0], &[0.0, -1.0, 1.01, nan, inf]);
    let some = |value| GenerationConfig { repetition_penalty: Some(value), ..config() };
    check("repetition_penalty", some, &[0.5, 1.0, 3.0], &[0.0, -1.0, nan, inf]);
    let some = |value| GenerationConfig { presence_penalty: Some(value), ..config() };
    check("presence_penalty", some, &[-2.0, 0.0, 2.0], &[-2.1, 2.1, nan]);
    let some = |value| GenerationConfig { frequency_penalty: Some(value), ..config() };
    check("frequency_penalty", some, &[-2.0, 0.0, 2.0], &[-2.1, 2.1, nan]);
}

#[test]
fn tokens_must_be_in_the_vocabulary() {
    let bias = |id, bias| GenerationConfig { logit_bias: Some(vec![(id, bias)]), ..config() };
    resolved(bias(49, -100.0));
    refused(bias(50, 1.0), "logit_bias is 50: it must be a token id below the vocabulary of 50");
    refused(bias(4, 101.0), "logit_bias is 101 for token 4: it must be from -100 to 100");
    refused(bias(4, f32::NAN), "logit_bias is NaN for token 4: it must be from -100 to 100");
    refused(
        GenerationConfig { stop_token_ids: Some(vec![1, 77]), ..config() },
        "stop_token_ids is 77: it must be a token id below the vocabulary of 50",
    );
    refused(
        GenerationConfig { forced_eos_token_id: Some(50), ..config() },
        "forced_eos_token_id is 50: it must be a token id below the vocabulary of 50",
    );
}

#[test]
fn reports_and_stops_are_bounded() {
    let n = |n| GenerationConfig { n: Some(n), ..config() };
    assert_eq!(resolved(n(4)).choices, 4);
    refused(n(0), "n is 0: it must be at least 1 and at most 4");
    refused(n(5), "n is 5: it must be at least 1 and at most 4");

    let logprobs = GenerationConfig { logprobs: Some(21), ..config() };
    refused(logprobs, "logprobs is 21: it must be at most 20");
    let logprobs = GenerationConfig { prompt_logprobs: Some(21), ..config() };
    refused(logprobs, "prompt_logprobs is 21: it must be at most 20");

    let stop = |texts: Vec<&str>| GenerationConfig {
        stop: Some(texts.into_iter().map(String::from).collect()),
        ..config()
    };
    resolved(stop(vec!["x"; MAX_STOPS]));
    refused(stop(vec!["x"; MAX_STOPS + 1]), "stop is 17 texts: it must be at most 16 texts");
    refused(
        stop(vec!["x", ""]),
        "stop is an empty text: it would end every output before its first token",
    );
}

#[test]
fn bad_words_are_bounded() {
    let words = |texts: Vec<String>| GenerationConfig { bad_words: Some(texts), ..config() };
    resolved(words(vec!["x".into(); MAX_BAD_WORDS]));
    refused(
        words(vec!["x".into(); MAX_BAD_WORDS + 1]),
        "bad_words is 1025 texts: it must be at most 1024 texts",
    );
    resolved(words(vec!["é".repeat(MAX_BAD_WORD_BYTES / 2)]));
    refused(
        words(vec!["é".repeat(MAX_BAD_WORD_BYTES / 2 + 1)]),
        "bad_words is a text of 1026 bytes: a text must have at most 1024 bytes",
    );
    refused(
        words(vec!["x".into(), String::new()]),
        "bad_words is an empty text: it occurs everywhere; leave it out",
    );
}

#[test]
fn the_length_is_named_once_and_fits() {
    let new = |new| GenerationConfig { max_new_tokens: Some(new), ..config() };
    let length = |length| GenerationConfig { max_length: Some(length), ..config() };
    assert_eq!(resolved(config()).max_new_tokens, 16);
    assert_eq!(resolved(new(64)).max_new_tokens, 64);
    assert_eq!(resolved(length(15)).max_new_tokens, 5);
    assert_eq!(resolved(length(4096)).max_new_tokens, 64);
    refused(new(65), "max_new_tokens is 65: it must be at least 1 and at most 64 (max_output_len)");
    refused(new(0), "max_new_tokens is 0: it must be at least 1 and at most 64 (max_output_len)");
    refused(length(10), "max_length is 10: it counts the prompt, which has 10 tokens already");
    refused(
        GenerationConfig { max_length: Some(20), ..new(5) },
        "max_new_tokens is 5: max_length is given too, as 20; give one of the two",
    );
    refused(
        GenerationConfig { min_new_tokens: Some(6), ..new(5) },
        "min_new_tokens is 6: it must be at most the 5 new tokens that are allowed",
    );
}

#[test]
fn a_long_prompt_leaves_less_room() {
    let limits = |prompt_tokens| ResolveLimits { prompt_tokens, ..LIMITS };
    assert_eq!(config().resolve(limits(95)).expect("5 tokens fit").max_new_tokens, 5);
    let new = GenerationConfig { max_new_tokens: Some(6), ..config() };
    let error = new.resolve(limits(95)).expect_err("6 tokens do not").to_string();
    assert!(error.contains("101 tokens (95 + 6)") && error.contains("100 fit"), "{error}");
    let error = config().resolve(limits(100)).expect_err("the context is full").to_string();
    assert!(error.contains("101 tokens (100 + 1)"), "{error}");
}

#[test]
fn who_samples() {
    let asks = |do_sample, temperature| GenerationConfig { do_sample, temperature, ..config() };
    let (seed, openai) =
        (GenerationConfig::colossalai_defaults(), GenerationConfig::openai_defaults());
    let table = [
        (asks(None, None), false, true),
        (asks(None, Some(0.7)), false, true),
        (asks(None, Some(0.0)), false, false),
        (asks(Some(true), None), true, true),
        (asks(Some(true), Some(0.0)), false, false),
        (asks(Some(false), Some(0.7)), false, false),
    ];
    for (given, with_seed, with_openai) in table {
        assert_eq!(resolved(given.clone().or(&seed)).do_sample, with_seed, "seed, {given:?}");
        assert_eq!(resolved(given.clone().or(&openai)).do_sample, with_openai, "openai, {given:?}");
    }
}

#[test]
fn ignoring_the_end_keeps_the_users_stops() {
    let own = GenerationConfig { stop_token_ids: Some(vec![7, 3, 7]), ..config() };
    assert_eq!(resolved(own.clone()).stop_ids, [2, 3, 7]);
    assert_eq!(resolved(GenerationConfig { ignore_eos: Some(true), ..own }).stop_ids, [7, 3]);
}

#[test]
fn the_callers_seed_is_taken_when_none_is_named() {
    assert_eq!(resolved(config()).seed, 99);
    assert_eq!(resolved(GenerationConfig { seed: Some(5), ..config() }).seed, 5);
}

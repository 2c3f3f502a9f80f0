//! Options under all their names, and what is refused.

use terrace_engine::Error as EngineError;

use super::*;

use crate::fields::tests::taken;

fn take(json: &str) -> ApiResult<RequestOptions> {
    taken(json, RequestOptions::take)
}

fn generation(json: &str) -> GenerationConfig {
    take(json).expect("good options").generation
}

#[track_caller]
fn check_refused(json: &str, want: &str) {
    assert_eq!(take(json).unwrap_err().message(), want);
}

#[test]
fn nothing_set_leaves_all_to_the_presets() {
    let options = take("{}").unwrap();
    assert_eq!(options.generation, GenerationConfig::default());
    assert_eq!((options.model, options.priority), (None, Priority(0)));
}

#[test]
fn an_empty_model_name_means_the_only_model() {
    assert_eq!(take(r#"{"model": ""}"#).unwrap().model, None);
}

#[test]
fn options_have_the_names_of_several_servers() {
    assert_eq!(generation(r#"{"max_completion_tokens": 3}"#).max_new_tokens, Some(3));
    assert_eq!(generation(r#"{"max_new_tokens": 3}"#).max_new_tokens, Some(3));
    assert_eq!(generation(r#"{"min_tokens": 2}"#).min_new_tokens, Some(2));
    assert_eq!(generation(r#"{"do_sample": true, "num_beams": 1}"#).do_sample, Some(true));
}

#[test]
fn all_tokens_is_zero_or_minus_one() {
    assert_eq!(generation(r#"{"top_k": -1}"#).top_k, Some(0));
    assert_eq!(generation(r#"{"top_k": 7}"#).top_k, Some(7));
    check_refused(
        r#"{"top_k": -2}"#,
        "top_k is -2: it must be a whole number from -1 to 2147483647",
    );
}

#[test]
fn seeds_keep_their_bits() {
    assert_eq!(generation(r#"{"seed": -1}"#).seed, Some(u64::MAX));
    assert_eq!(generation(r#"{"seed": 18446744073709551615}"#).seed, Some(u64::MAX));
    check_refused(r#"{"seed": 1.5}"#, "seed must be a 64-bit integer");
}

#[test]
fn biases_come_by_token_id() {
    assert_eq!(
        generation(r#"{"logit_bias": {"5": -100, "7": 1.5}}"#).logit_bias,
        Some(vec![(5, -100.0), (7, 1.5)])
    );
    check_refused(
        r#"{"logit_bias": {"a": 1}}"#,
        "logit_bias: \"a\": 1 is not a token id and a number",
    );
    check_refused(
        r#"{"logit_bias": {"5": "x"}}"#,
        "logit_bias: \"5\": \"x\" is not a token id and a number",
    );
}

#[test]
fn bookkeeping_is_ignored_and_the_unknown_is_not() {
    assert!(take(r#"{"user": "me", "metadata": {"a": 1}}"#).is_ok());
    check_refused(r#"{"temprature": 1}"#, "unknown field \"temprature\"");
    check_refused(
        r#"{"num_beams": 4}"#,
        "num_beams: there is no beam search here; use n for several outputs",
    );
}

#[test]
fn prompts_times_choices_are_limited() {
    let limits = Limits { choices: 6, ..Limits::default() };
    let checked = |prompts, n| {
        let mut options = take("{}").unwrap();
        options.generation.n = Some(n);
        options.check_choices(prompts, &limits)
    };
    assert_eq!(checked(2, 3), Ok(6));
    for (prompts, choices) in [(2, 4), (1, 0), (2, usize::MAX)] {
        assert!(checked(prompts, choices).is_err(), "{prompts} {choices}");
    }
}

#[test]
fn a_huge_n_is_refused_before_anything_is_built() {
    for n in ["1000000000", "18446744073709551615", "-1", "0", "1e30"] {
        let message = format!("n is {n}: it must be a whole number from 1 to 128");
        check_refused(&format!(r#"{{"n": {n}}}"#), &message);
    }
}

#[test]
fn the_engines_complaint_names_what_the_client_sent() {
    let bad = || EngineError::BadOption {
        option: "max_new_tokens",
        value: "9".to_owned(),
        rule: "too long".to_owned(),
    };
    for name in ["max_tokens", "max_completion_tokens", "n_predict", "max_new_tokens"] {
        let options = take(&format!(r#"{{"{name}": 9}}"#)).unwrap();
        let error = options.in_clients_words(bad().into()).to_json();
        let error: Value = serde_json::from_str(&error).unwrap();
        assert_eq!(error["error"]["param"], name);
        assert_eq!(error["error"]["message"], format!("{name} is 9: too long"));
    }
}

#[test]
fn a_prompt_that_shall_not_be_cached_has_a_salt_of_its_own() {
    let salt = || take(r#"{"cache_prompt": false}"#).unwrap().cache_salt;
    assert_ne!(salt(), salt());
    assert_eq!(take(r#"{"cache_prompt": true}"#).unwrap().cache_salt, "");
}

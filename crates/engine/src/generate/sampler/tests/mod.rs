//! What the sampler promises, from the outside and processor by processor.

mod distribution;
mod hugging_face;

use std::sync::Arc;

use terrace_kernels::sampling::uniform;

use super::token_counts::TokenCounts;
use super::{RowContext, Sampler};
use crate::error::Error;
use crate::generate::executor::SampledToken;
use crate::generate::logits_processor::{LogitsContext, LogitsProcessor};
use crate::generate::sampling_params::SamplingParams;
use terrace_cache::TokenId;

const NONE: f32 = f32::NEG_INFINITY;

/// Greedy, with every processor off.
fn greedy() -> SamplingParams {
    SamplingParams::greedy(100)
}

fn sampled() -> SamplingParams {
    SamplingParams { do_sample: true, ..greedy() }
}

fn sample_after(
    logits: &[f32],
    params: &SamplingParams,
    output: &[TokenId],
) -> Result<SampledToken, Error> {
    let row = RowContext { params, prompt: &[], output, choice: 0, position: 0, allowed: None };
    Sampler::new().sample(&mut logits.to_vec(), &row)
}

#[track_caller]
fn check(logits: &[f32], params: &SamplingParams, output: &[TokenId], want: TokenId) {
    let token = sample_after(logits, params, output).expect("a token can be chosen");
    assert_eq!(token.id, want);
}

/// `vocab` scores between -8 and 8, a function of `seed`. With `steps`, many are equal.
fn random_row(vocab: usize, seed: u64, steps: Option<f64>) -> Vec<f32> {
    let random = |id: usize| uniform(seed, 0, id as u64) * 16.0 - 8.0;
    let coarse = |score: f64| steps.map_or(score, |steps| (score * steps).round() / steps);
    (0..vocab).map(|id| coarse(random(id)) as f32).collect()
}

#[test]
fn greedy_takes_the_lowest_of_the_best() {
    check(&[1.0, 5.0, 5.0, 2.0], &greedy(), &[], 1);
    check(&[f32::NAN, NONE, -3.0, f32::NAN], &greedy(), &[], 2);
    check(&[0.0, f32::INFINITY, f32::INFINITY], &greedy(), &[], 1);
}

#[test]
fn an_infinite_score_is_chosen_without_a_draw() {
    check(&[0.0, 9.0, f32::INFINITY], &sampled(), &[], 2);
}

#[test]
fn a_row_without_numbers_is_an_error() {
    for params in [greedy(), sampled(), SamplingParams { logprobs: Some(2), ..greedy() }] {
        for row in [vec![], vec![NONE; 3], vec![f32::NAN; 3]] {
            let error = sample_after(&row, &params, &[]).expect_err("nothing can be chosen");
            assert!(matches!(error, Error::Step(_)), "{error}");
        }
    }
}

#[test]
fn not_a_number_is_never_drawn() {
    let row = [f32::NAN, 0.0, f32::NAN, NONE, 0.0];
    for (top_k, top_p, min_p) in [(0, 1.0, 0.0), (4, 1.0, 0.0), (0, 0.99, 0.0), (3, 0.9, 0.1)] {
        for seed in 0..50 {
            let params = SamplingParams { top_k, top_p, min_p, seed, ..sampled() };
            let id = sample_after(&row, &params, &[]).expect("two tokens are left").id;
            assert!(id == 1 || id == 4, "drew {id} with top_k {top_k}, top_p {top_p}");
        }
    }
}

/// The row of `typical_p_keeps_what_is_near_the_entropy` in `terrace_kernels`: token 1 is the most
/// typical of 1/2, 1/4, 1/8 and 1/8. What top-k leaves is what is typical or not: of 2/3 and 1/3,
/// whose entropy is 0.918 bits, token 0 is 0.33 bits away and token 1 is 0.67.
#[test]
fn typical_p_looks_at_what_the_filters_before_it_leave() {
    let row = [0.5f32.ln(), 0.25f32.ln(), 0.125f32.ln(), 0.125f32.ln()];
    for seed in 0..20 {
        let params = SamplingParams { typical_p: 0.1, seed, ..sampled() };
        check(&row, &params, &[], 1);
        check(&row, &SamplingParams { top_k: 2, ..params.clone() }, &[], 0);
        // Greedy rows have no distribution to narrow.
        check(&row, &SamplingParams { do_sample: false, ..params }, &[], 0);
    }
}

#[test]
fn a_tiny_temperature_is_greedy() {
    for temperature in [f32::MIN_POSITIVE, 1e-30, 1e-3] {
        check(&[4.0, 5.0, 3.0], &SamplingParams { temperature, ..sampled() }, &[], 1);
    }
}

#[test]
fn penalties_follow_their_formulas() {
    let scores = |presence, frequency| {
        let mut scores = [1.0, 1.0, 1.0];
        let output = [2, 0, 2, 2, 77];
        let mut counts = TokenCounts::default();
        super::presence_frequency::presence_frequency(
            &mut scores,
            presence,
            frequency,
            &output,
            &mut counts,
        );
        scores
    };
    assert_eq!(scores(0.5, 0.0), [0.5, 1.0, 0.5]);
    assert_eq!(scores(0.0, 0.25), [0.75, 1.0, 0.25]);
    assert_eq!(scores(-1.0, 0.25), [1.75, 1.0, 1.25]);
}

#[test]
fn a_bad_word_is_not_completed() {
    let params = |words: &[&[TokenId]]| SamplingParams {
        bad_words: words.iter().map(|word| word.to_vec()).collect(),
        ..greedy()
    };
    let row = [1.0, 4.0, 3.0, 2.0];
    // A word of one token never occurs.
    check(&row, &params(&[&[1]]), &[], 2);
    // A longer one is forbidden where it would end, and nowhere else.
    let word = params(&[&[3, 0, 1]]);
    for (output, want) in [(&[3, 0][..], 2), (&[0, 3, 0], 2), (&[3], 1), (&[0], 1), (&[3, 0, 0], 1)]
    {
        check(&row, &word, output, want);
    }
    check(&row, &params(&[&[3, 0, 1], &[2], &[0, 1], &[77], &[0, 77]]), &[3, 0], 3);
}

#[test]
fn forced_end_overrides_the_minimum_length() {
    let params = SamplingParams {
        stop_ids: vec![1],
        min_new_tokens: 5,
        max_new_tokens: 3,
        forced_eos: Some(1),
        ..greedy()
    };
    check(&[0.0, 9.0, 1.0], &params, &[0], 2);
    check(&[0.0, 9.0, 1.0], &params, &[0, 0], 1);
}

#[test]
fn users_processors_come_after_the_built_in_ones() {
    struct TakeForbidden;
    impl LogitsProcessor for TakeForbidden {
        fn process(&self, context: &LogitsContext<'_>, logits: &mut [f32]) {
            assert_eq!(context.output, [7]);
            let forbidden = logits.iter().position(|&score| score == NONE);
            logits[forbidden.expect("the stop token is forbidden")] = 100.0;
        }
    }
    let params = SamplingParams {
        stop_ids: vec![2],
        min_new_tokens: 5,
        processors: vec![Arc::new(TakeForbidden)],
        ..greedy()
    };
    check(&[0.0, 9.0, 1.0], &params, &[7], 2);
}

#[test]
fn log_probabilities_are_the_models_own() {
    let params = SamplingParams { logit_bias: vec![(0, 50.0)], logprobs: Some(3), ..greedy() };
    let token = sample_after(&[0.0, 2.0, 1.0, 2.0], &params, &[]).expect("a token can be chosen");
    assert_eq!(token.id, 0);

    let total = (1.0 + 2.0 * 2f64.exp() + 1f64.exp()).ln();
    let near = |got: f32, logit: f64| assert!((f64::from(got) - (logit - total)).abs() < 1e-6);
    let logprobs = token.logprobs.expect("log-probabilities were asked for");
    near(logprobs.logprob, 0.0);
    assert_eq!(logprobs.top.iter().map(|top| top.0).collect::<Vec<_>>(), [1, 3, 2]);
    for (&(_, got), logit) in logprobs.top.iter().zip([2.0, 2.0, 1.0]) {
        near(got, logit);
    }
}

#[test]
fn log_probabilities_of_the_prompt_cover_odd_rows() {
    let mut sampler = Sampler::new();
    let odd = [f32::NAN, 1.0, NONE];
    let logprobs = sampler.prompt_logprobs(&odd, 0, 5).expect("one logit is a number");
    assert_eq!((logprobs.logprob, logprobs.top), (NONE, vec![(1, 0.0), (2, NONE)]));
    assert_eq!(sampler.prompt_logprobs(&odd, 1, 0).expect("as above").top, []);
    assert!(matches!(sampler.prompt_logprobs(&odd, 3, 0), Err(Error::UnknownToken { .. })));
    assert!(matches!(sampler.prompt_logprobs(&[f32::INFINITY], 0, 0), Err(Error::Step(_))));
}

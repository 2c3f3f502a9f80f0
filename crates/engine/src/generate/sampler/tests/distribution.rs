//! Draws follow the probabilities, and only the row's own context.

use super::super::{RowContext, Sampler};
use super::{SamplingParams, TokenId, random_row, sampled};

/// Chi-square statistic of draws against probabilities that are all positive.
fn chi_square(counts: &[usize], probabilities: &[f64]) -> f64 {
    let draws: usize = counts.iter().sum();
    let term = |(&count, &probability): (&usize, &f64)| {
        let expected = probability * draws as f64;
        (count as f64 - expected).powi(2) / expected
    };
    counts.iter().zip(probabilities).map(term).sum()
}

/// Draws along one axis (seed, choice or position) must follow the distribution.
#[track_caller]
fn check_axis(name: &str, place: impl Fn(u64) -> (u64, usize, u64)) {
    let temperature = 0.7f32;
    let logits = [0.5f32, -1.0, 2.0, 1.0, 0.0, 1.5, -0.5, 1.9];
    let weights = logits.map(|logit| f64::from(logit / temperature).exp());
    let total: f64 = weights.iter().sum();

    let mut sampler = Sampler::new();
    let mut counts = [0; 8];
    for draw in 0..20_000 {
        let (seed, choice, position) = place(draw);
        let params = SamplingParams { temperature, seed, ..sampled() };
        let row = RowContext {
            params: &params,
            prompt: &[],
            output: &[],
            choice,
            position,
            allowed: None,
        };
        let token = sampler.sample(&mut logits.clone(), &row).expect("a token can be chosen");
        counts[token.id as usize] += 1;
    }
    // 7 degrees of freedom: a fair draw exceeds 24.3 once in a thousand times, and these places
    // are fixed.
    let statistic = chi_square(&counts, &weights.map(|weight| weight / total));
    assert!(statistic < 24.3, "along {name}: chi-square {statistic}, counts {counts:?}");
}

#[test]
fn draws_follow_the_probabilities_along_every_axis() {
    check_axis("position", |draw| (42, 0, draw));
    check_axis("choice", |draw| (42, draw as usize, 7));
    check_axis("seed", |draw| (draw, 0, 0));
}

/// Rows of different requests, as a batch would hold them.
fn batch() -> Vec<(SamplingParams, Vec<f32>, Vec<TokenId>)> {
    let filters = [(0, 1.0, 0.0), (20, 1.0, 0.0), (0, 0.9, 0.0), (40, 0.8, 0.05)];
    let make = |index: usize| {
        let (top_k, top_p, min_p) = filters[index % filters.len()];
        let params = SamplingParams {
            top_k,
            top_p,
            min_p,
            repetition_penalty: 1.0 + (index % 3) as f32,
            presence_penalty: (index % 2) as f32,
            seed: index as u64,
            ..sampled()
        };
        let vocab = [50, 400, 1500][index % 3];
        let output = (0..index as TokenId).map(|token| token * 7 % 50).collect();
        (params, random_row(vocab, index as u64, None), output)
    };
    (0..24).map(make).collect()
}

#[test]
fn the_batch_and_its_order_do_not_matter() {
    let batch = batch();
    let sample = |sampler: &mut Sampler, index: usize| {
        let (params, logits, output) = &batch[index];
        let position = output.len() as u64;
        let row = RowContext {
            params,
            prompt: &[1, 2, 3],
            output,
            choice: index,
            position,
            allowed: None,
        };
        sampler.sample(&mut logits.clone(), &row).expect("a token can be chosen").id
    };
    let alone: Vec<_> = (0..batch.len()).map(|index| sample(&mut Sampler::new(), index)).collect();

    let mut shared = Sampler::new();
    let forward: Vec<_> = (0..batch.len()).map(|index| sample(&mut shared, index)).collect();
    let mut backward: Vec<_> =
        (0..batch.len()).rev().map(|index| sample(&mut shared, index)).collect();
    backward.reverse();
    assert_eq!(forward, alone);
    assert_eq!(backward, alone);
}

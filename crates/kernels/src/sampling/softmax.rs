//! Scores as weights: probabilities up to their common sum.
//!
//! The arithmetic is fixed here, down to the exponential and the order of the sums, so that the
//! same logits and seed draw the same token on every machine.

use super::argmax::max;

/// Sets `weights[i]` to e^(scores[i] - best score) and returns their sum. What is -inf or not a
/// number weighs nothing; the best score must be finite for the weights to mean something.
pub fn weigh(scores: &[f32], weights: &mut Vec<f32>) -> f64 {
    let best = max(scores);
    weights.clear();
    weights.extend(scores.iter().map(|&score| exp(score - best)));
    blocks(weights).map(sum).sum()
}

/// The runs of weights that are summed as one.
pub fn blocks(weights: &[f32]) -> std::slice::Chunks<'_, f32> {
    weights.chunks(256)
}

pub fn sum(weights: &[f32]) -> f64 {
    const LANES: usize = 8;
    let (blocks, rest) = weights.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for block in blocks {
        for (lane, &weight) in lanes.iter_mut().zip(block) {
            *lane += f64::from(weight);
        }
    }
    lanes.iter().copied().chain(rest.iter().map(|&weight| f64::from(weight))).sum()
}

/// e^x for x ≤ 0, within 2e-7 of it; 0 below -87 and for NaN. Branch-free, so that a loop over it
/// is vectorised, which the standard library's is not.
fn exp(x: f32) -> f32 {
    // Adding it rounds to a whole number, whose low bits then end the sum's bit pattern.
    const ROUNDER: f32 = 12_582_912.0;
    // ln 2 in two parts: the first has so few bits that its product with a small whole number
    // is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;

    let rounded = x * std::f32::consts::LOG2_E + ROUNDER;
    let power = rounded - ROUNDER;
    let rest = x - power * LN_2_HIGH - power * LN_2_LOW;
    // e^rest by its series; |rest| ≤ ln(2) / 2, where the next term is below 6e-9.
    let mut series = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = series * rest + coefficient;
    }
    let scale = f32::from_bits(rounded.to_bits().wrapping_add(127) << 23);
    if x > -87.0 { series * scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{exp, weigh};

    #[test]
    fn exponential_agrees_with_the_exact_one() {
        for step in 0..=87_000 {
            let x = -(step as f32) / 1000.0;
            let want = f64::from(x).exp();
            let error = (f64::from(exp(x)) - want).abs() / want;
            assert!(error < 2e-7 || x <= -87.0, "e^{x}: relative error {error}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-100.0), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::NAN), 0.0);
    }

    #[test]
    fn sum_of_weights_covers_every_length() {
        let mut weights = Vec::new();
        for len in [1, 7, 8, 9, 255, 256, 257, 1000] {
            assert_eq!(weigh(&vec![3.0; len], &mut weights), len as f64);
        }
    }
}

//! Keeps the tokens that are about as surprising as the distribution is on average.
//!
//! Locally typical sampling (Meister et al., "Locally typical sampling", TACL 2023). A token's
//! surprisal is -ln p, and the entropy is the mean of it; a very probable token may be as untypical
//! as a very improbable one.

use super::argmax::max;
use super::softmax::weigh;

/// Scratch of [`typical_p`].
#[derive(Default)]
pub struct TypicalScratch {
    weights: Vec<f32>,
    candidates: Vec<Candidate>,
}

/// A token that can be drawn.
#[derive(Clone, Copy)]
struct Candidate {
    /// How far its surprisal is from the entropy.
    deviation: f64,
    weight: f32,
}

/// Keeps tokens by rising distance between their surprisal and the entropy until they hold
/// `typical_p` of the probability; those as far away as the last of them stay too. So one always
/// stays. 1 keeps all.
pub fn typical_p(scores: &mut [f32], typical_p: f32, scratch: &mut TypicalScratch) {
    if typical_p >= 1.0 {
        return;
    }
    let TypicalScratch { weights, candidates } = scratch;
    let total = weigh(scores, weights);
    let best = max(scores);
    // Surprisals are `ln total - (score - best)`. What is common to all cancels, so that distances
    // from the entropy are those of the scores from their mean.
    let mut mean = 0.0;
    for (&score, &weight) in scores.iter().zip(weights.iter()) {
        if weight > 0.0 {
            mean += f64::from(weight) / total * f64::from(score - best);
        }
    }
    let deviation = |score: f32| (f64::from(score - best) - mean).abs();
    candidates.clear();
    for (&score, &weight) in scores.iter().zip(weights.iter()) {
        if weight > 0.0 {
            candidates.push(Candidate { deviation: deviation(score), weight });
        }
    }
    let largest = largest_deviation(candidates, f64::from(typical_p) * total);
    for (score, &weight) in scores.iter_mut().zip(weights.iter()) {
        let stays = weight > 0.0 && deviation(*score) <= largest;
        *score = if stays { *score } else { f32::NEG_INFINITY };
    }
}

/// The deviation of the candidate with which the most typical ones reach `mass`.
///
/// Halves the candidates until few are left to sort, as `top_p` does.
fn largest_deviation(mut candidates: &mut [Candidate], mut mass: f64) -> f64 {
    const SORTED: usize = 64;
    let by_deviation = |a: &Candidate, b: &Candidate| a.deviation.total_cmp(&b.deviation);
    while candidates.len() > SORTED {
        let middle = candidates.len() / 2;
        candidates.select_nth_unstable_by(middle, by_deviation);
        let (typical, others) = candidates.split_at_mut(middle);
        let typical_mass: f64 = typical.iter().map(|token| f64::from(token.weight)).sum();
        if typical_mass >= mass {
            candidates = typical;
        } else {
            mass -= typical_mass;
            candidates = others;
        }
    }
    candidates.sort_unstable_by(by_deviation);
    for token in candidates.iter() {
        mass -= f64::from(token.weight);
        if mass <= 0.0 {
            return token.deviation;
        }
    }
    // The sums have rounded below the mass: all stay.
    f64::INFINITY
}

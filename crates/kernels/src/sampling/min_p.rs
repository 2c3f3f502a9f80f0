//! Drops tokens less probable than a share of the best one.

use super::argmax::max;

/// A token stays if its probability is at least `min_p` times the best token's.
pub fn min_p(scores: &mut [f32], min_p: f32) {
    if min_p <= 0.0 {
        return;
    }
    // The ratio of two probabilities is the difference of their scores: no softmax is needed.
    let floor = max(scores) + min_p.ln();
    for score in scores {
        if *score < floor {
            *score = f32::NEG_INFINITY;
        }
    }
}

//! The arithmetic of scores, the same for a host that serves and for the reference of a batch.

use std::ops::Range;

use super::HeadSlots;
use super::rule::Weighting;

/// Adds what a chunk attended to; [`Weighting::Custom`] is the policy's own matter.
pub(crate) fn add_weights(weighting: Weighting, head: &HeadSlots<'_>, scores: &mut [f32]) {
    let scale = match weighting {
        Weighting::Attention => None,
        Weighting::ByValueNorm => norm_scale(head),
        Weighting::Custom { .. } => unreachable!("a policy of its own scores by itself"),
    };
    match scale {
        None => scores.iter_mut().zip(head.weights).for_each(|(score, weight)| *score += weight),
        Some(scale) => {
            let shares = head.weights.iter().zip(head.value_norms).map(|(w, norm)| w * norm);
            scores.iter_mut().zip(shares).for_each(|(score, share)| *score += share * scale);
        }
    }
}

/// What makes the shares sum to the chunk's tokens. Norms that are all zero say nothing, and the
/// weights count as they are.
fn norm_scale(head: &HeadSlots<'_>) -> Option<f32> {
    let shares = head.weights.iter().zip(head.value_norms).map(|(w, norm)| f64::from(w * norm));
    let total: f64 = shares.sum();
    (total > 0.0).then(|| (head.chunk_tokens as f64 / total) as f32)
}

/// Divides each score by how many tokens have been seen since its token could be scored: those of
/// the first chunk from its end.
pub(crate) fn divide_by_age(
    scores: &mut [f32],
    positions: &[i32],
    seen_tokens: usize,
    first_chunk: usize,
) {
    for (score, position) in scores.iter_mut().zip(positions) {
        let since = (*position).max(first_chunk as i32 - 1);
        *score /= (seen_tokens as i32 - since) as f32;
    }
}

/// Joins scores and errors, both `[heads][slots]`, over the slots where `counted` is true.
///
/// Equal numbers map to 0: they say nothing, and no decision may rest on them.
pub(crate) fn join_errors(
    share: f32,
    scores: &mut [f32],
    errors: &[f32],
    counted: impl Fn(usize) -> bool,
) {
    let score_range = NumberRange::of(scores, &counted);
    let error_range = NumberRange::of(errors, &counted);
    for (score, error) in scores.iter_mut().zip(errors) {
        let lost = (share - 1.0) / 2.0 * error_range.share(*error);
        *score = share * score_range.share(*score) + lost + (1.0 - share);
    }
}

/// From the smallest of some numbers to the largest.
struct NumberRange {
    least: f32,
    length: f32,
}

impl NumberRange {
    fn of(numbers: &[f32], counted: impl Fn(usize) -> bool) -> NumberRange {
        let of_counted = || numbers.iter().enumerate().filter(|(i, _)| counted(*i));
        let least = of_counted().fold(f32::INFINITY, |least, (_, x)| least.min(*x));
        let most = of_counted().fold(f32::NEG_INFINITY, |most, (_, x)| most.max(*x));
        NumberRange { least, length: most - least }
    }

    /// 0 for the smallest, 1 for the largest.
    fn share(&self, x: f32) -> f32 {
        if self.length > 0.0 { (x - self.least) / self.length } else { 0.0 }
    }
}

/// The `tokens` slots with the lowest scores among the candidates, the lowest first; of equal ones
/// the lower slot.
pub(crate) fn lowest(
    scores: &[f32],
    among: Range<usize>,
    candidate: impl Fn(usize) -> bool,
    tokens: usize,
) -> Vec<u32> {
    let mut slots: Vec<usize> = among.filter(|slot| candidate(*slot)).collect();
    slots.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    slots.truncate(tokens);
    slots.into_iter().map(|slot| slot as u32).collect()
}

//! The softmax of one query, carried from block to block.

use super::BLOCK_KEYS;
use crate::cpu::lanes::Lanes;

/// The largest score of a query that has seen no key: below all scores, but a number.
pub(crate) const NOTHING_SEEN: f32 = f32::MIN;

/// Turns a block's scores into weights relative to the largest score so far, and brings
/// `(largest, total)` up to date. Hidden keys have a score of minus infinity and get 0.
///
/// Returns what earlier sums of this query must be scaled by.
#[inline(always)]
pub(crate) fn carry_on<L: Lanes>(
    lanes: L,
    scores: &mut [f32],
    scale: f32,
    (largest, total): (&mut f32, &mut f32),
) -> f32 {
    let scores: &mut [f32; BLOCK_KEYS] = scores.try_into().expect("one block of scores");
    let factor = lanes.splat(scale);
    let mut most = lanes.splat(*largest);
    for scores in scores.chunks_exact_mut(L::COUNT) {
        let scaled = lanes.mul(lanes.read(scores), factor);
        most = lanes.max(most, scaled);
        lanes.write(scaled, scores);
    }
    let new_largest = lanes.largest(most);
    let mut weights = lanes.splat(0.0);
    for scores in scores.chunks_exact_mut(L::COUNT) {
        let weight = lanes.exp(lanes.sub(lanes.read(scores), lanes.splat(new_largest)));
        weights = lanes.add(weights, weight);
        lanes.write(weight, scores);
    }
    let shrink = shrink(lanes, *largest, new_largest);
    *largest = new_largest;
    *total = *total * shrink + lanes.sum(weights);
    shrink
}

/// What weights relative to `before` are multiplied by to be relative to `largest`; exactly 1 if
/// these are equal.
#[inline(always)]
pub(crate) fn shrink<L: Lanes>(lanes: L, before: f32, largest: f32) -> f32 {
    let mut factor = [1.0];
    if before != largest {
        lanes.write(lanes.exp(lanes.splat(before - largest)), &mut factor);
    }
    factor[0]
}

//! Pointwise weights of sixteen queries, without a softmax: a lane is a query.
//!
//! Weights will be rounded to bf16, so a cheap exponential and a cheap reciprocal will do.

use std::f32::consts::LOG2_E;

use half::bf16;

use crate::cpu::lanes::{Lanes, PanelLanes};
use crate::tiles::{BLOCK_COLUMNS, PANEL_ROWS};

/// Turns scores into weights `x / (1 + exp(-x))`, two neighbouring keys side by side.
///
/// scores: `[keys, 16]` · weights: `[keys / 2, 16, 2]`
#[inline(always)]
pub(super) fn silu_weights<S: PanelLanes>(lanes: S, scores: &[f32], weights: &mut [bf16]) {
    assert_eq!(scores.len(), weights.len(), "a weight for each score");
    let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
    let pairs = scores.as_chunks::<BLOCK_COLUMNS>().0;
    for (pair, to) in pairs.iter().zip(weights.as_chunks_mut::<BLOCK_COLUMNS>().0) {
        let (first, second) = pair.split_at(PANEL_ROWS);
        for lane in (0..PANEL_ROWS).step_by(count) {
            // Not by a closure: that would be compiled without the level's instructions.
            let first = silu(base, base.read(&first[lane..]));
            let second = silu(base, base.read(&second[lane..]));
            let to = &mut to[2 * lane..2 * (lane + count)];
            // SAFETY: so many pairs of two bytes are borrowed.
            unsafe { lanes.store_ints(lanes.join_bf16(first, second), to.as_mut_ptr().cast()) };
        }
    }
}

#[inline(always)]
fn silu<L: Lanes>(lanes: L, x: L::Vector) -> L::Vector {
    // Below -125 the weight is less than any sum can hold.
    let power = lanes.min(lanes.splat(125.0), lanes.mul(x, lanes.splat(-LOG2_E)));
    let divisor = lanes.add(lanes.splat(1.0), lanes.exp2(power));
    lanes.mul(x, lanes.rough_inverse(divisor))
}

/// Scores of keys that a query does not see become 0, whose weight is 0.
///
/// scores: `[keys, 16]`, the first of key `start` · seen: first keys, and those behind the last
#[inline(always)]
pub(super) fn hide_as_zero<L: Lanes>(
    lanes: L,
    scores: &mut [f32],
    start: usize,
    seen: &[[f32; PANEL_ROWS]; 2],
) {
    for lane in (0..PANEL_ROWS).step_by(L::COUNT) {
        let (first, end) = (lanes.read(&seen[0][lane..]), lanes.read(&seen[1][lane..]));
        for (i, scores) in scores.chunks_exact_mut(PANEL_ROWS).enumerate() {
            let key = (start + i) as f32;
            let score = lanes.read(&scores[lane..]);
            let score = lanes.unless_less(score, lanes.splat(key), first);
            let score = lanes.unless_less(score, end, lanes.splat(key + 1.0));
            lanes.write(score, &mut scores[lane..]);
        }
    }
}

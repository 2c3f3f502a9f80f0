//! The softmax of sixteen queries, carried from block to block: a lane is a query.
//!
//! Scores are powers of 2 here, so weights need no logarithm of 2; and they will be rounded to
//! bf16, so a cheap exponential will do.

use half::bf16;

use crate::cpu::lanes::{Lanes, PanelLanes};
use crate::tiles::{BLOCK_COLUMNS, PANEL_ROWS};

/// What sixteen queries have seen so far.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) largest: [f32; PANEL_ROWS],
    /// Sum of the weights.
    pub(crate) total: [f32; PANEL_ROWS],
}

impl Seen {
    /// A number below all scores, but a number: queries that see no key of a block stay as they
    /// are.
    pub(crate) const NOTHING: Seen =
        Seen { largest: [f32::MIN; PANEL_ROWS], total: [0.0; PANEL_ROWS] };

    /// Turns scores into weights relative to the largest score so far, two neighbouring keys side
    /// by side. Returns what earlier sums must be scaled by, unless that is 1 for all.
    ///
    /// scores: `[keys, 16]` · weights: `[keys / 2, 16, 2]`
    #[inline(always)]
    pub(crate) fn carry_on<S: PanelLanes>(
        &mut self,
        lanes: S,
        scores: &[f32],
        weights: &mut [bf16],
    ) -> Option<[f32; PANEL_ROWS]> {
        assert_eq!(scores.len(), weights.len(), "a weight for each score");
        let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
        let mut shrink = [1.0; PANEL_ROWS];
        let mut grown = 0f32;
        for lane in (0..PANEL_ROWS).step_by(count) {
            let earlier = base.read(&self.largest[lane..]);
            let largest = base.max(earlier, largest(base, scores, lane));
            let growth = base.sub(largest, earlier);
            grown = grown.max(base.largest(growth));
            let shrinks = base.exp2(base.sub(earlier, largest));
            base.write(largest, &mut self.largest[lane..]);
            base.write(shrinks, &mut shrink[lane..]);
            let mut total = base.mul(base.read(&self.total[lane..]), shrinks);
            let pairs = scores.as_chunks::<BLOCK_COLUMNS>().0;
            for (pair, to) in pairs.iter().zip(weights.as_chunks_mut::<BLOCK_COLUMNS>().0) {
                let (first, second) = pair.split_at(PANEL_ROWS);
                let first = base.exp2(base.sub(base.read(&first[lane..]), largest));
                let second = base.exp2(base.sub(base.read(&second[lane..]), largest));
                total = base.add(total, base.add(first, second));
                let to = &mut to[2 * lane..2 * (lane + count)];
                // SAFETY: so many pairs of two bytes are borrowed.
                unsafe { lanes.store_ints(lanes.join_bf16(first, second), to.as_mut_ptr().cast()) };
            }
            base.write(total, &mut self.total[lane..]);
        }
        (0.0 < grown).then_some(shrink)
    }

    /// Adds to `sums` what keys weigh in the end, each query's weights multiplied by its factor.
    ///
    /// scores, sums: `[keys, 16]`
    #[inline(always)]
    pub(crate) fn add_weights<L: Lanes>(
        &self,
        lanes: L,
        scores: &[f32],
        factors: &[f32; PANEL_ROWS],
        sums: &mut [f32],
    ) {
        assert_eq!(scores.len(), sums.len(), "a sum for each score");
        for lane in (0..PANEL_ROWS).step_by(L::COUNT) {
            let largest = lanes.read(&self.largest[lane..]);
            let factor = lanes.read(&factors[lane..]);
            let keys = scores.as_chunks::<PANEL_ROWS>().0;
            for (scores, sums) in keys.iter().zip(sums.as_chunks_mut::<PANEL_ROWS>().0) {
                let weight = lanes.exp2(lanes.sub(lanes.read(&scores[lane..]), largest));
                let sum = lanes.mul_add(weight, factor, lanes.read(&sums[lane..]));
                lanes.write(sum, &mut sums[lane..]);
            }
        }
    }
}

/// The largest scores of the queries from `lane` on.
#[inline(always)]
fn largest<L: Lanes>(lanes: L, scores: &[f32], lane: usize) -> L::Vector {
    // Four at a time do not wait for each other.
    let mut most = [lanes.splat(f32::MIN); 4];
    for keys in scores.as_chunks::<{ 4 * PANEL_ROWS }>().0 {
        for (i, most) in most.iter_mut().enumerate() {
            *most = lanes.max(*most, lanes.read(&keys[i * PANEL_ROWS + lane..]));
        }
    }
    let [a, b, c, d] = most;
    lanes.max(lanes.max(a, b), lanes.max(c, d))
}

/// What sixteen queries see: keys whose numbers lie between these two, which are seen too.
pub(crate) struct Sight {
    pub(crate) oldest: [f32; PANEL_ROWS],
    pub(crate) newest: [f32; PANEL_ROWS],
}

impl Sight {
    /// Makes scores of keys that a query does not see infinitely small.
    ///
    /// scores: `[keys, 16]` · keys: the number of each
    #[inline(always)]
    pub(crate) fn hide<L: Lanes>(&self, lanes: L, scores: &mut [f32], keys: &[f32]) {
        assert_eq!(scores.len(), keys.len() * PANEL_ROWS, "scores of each key");
        for lane in (0..PANEL_ROWS).step_by(L::COUNT) {
            let oldest = lanes.read(&self.oldest[lane..]);
            let newest = lanes.read(&self.newest[lane..]);
            for (scores, key) in scores.chunks_exact_mut(PANEL_ROWS).zip(keys) {
                let key = lanes.splat(*key);
                let seen = lanes.unless_less(lanes.splat(1.0), key, oldest);
                let seen = lanes.unless_less(seen, newest, key);
                // Infinite: above all scores where the key is seen, below where it is not.
                let limit = lanes.sub(seen, lanes.splat(0.5));
                let limit = lanes.mul(limit, lanes.splat(f32::INFINITY));
                let score = lanes.min(lanes.read(&scores[lane..]), limit);
                lanes.write(score, &mut scores[lane..]);
            }
        }
    }
}

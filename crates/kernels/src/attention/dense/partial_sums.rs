//! What queries have summed over some keys, merged over splits by log-sum-exp.

use crate::attention::blocks::{NOTHING_SEEN, OutRows, shrink};
use crate::cpu::lanes::Lanes;

/// What queries have summed over some keys.
pub(super) struct PartialSums<'a> {
    /// `[queries]`: the largest score, and the sum of weights relative to it.
    pub(super) largest: &'a mut [f32],
    pub(super) total: &'a mut [f32],
    /// Weighted values.
    pub(super) out: OutRows<'a>,
}

impl<'a> PartialSums<'a> {
    /// state: `[2, queries]`
    pub(super) fn new(state: &'a mut [f32], out: OutRows<'a>) -> Self {
        let (largest, total) = state.split_at_mut(state.len() / 2);
        PartialSums { largest, total, out }
    }

    pub(super) fn clear(&mut self) {
        self.largest.fill(NOTHING_SEEN);
        self.total.fill(0.0);
        for query in 0..self.total.len() {
            // SAFETY: one query at a time.
            unsafe { self.out.get(query) }.fill(0.0);
        }
    }

    /// Takes in what the same queries have summed over later keys.
    #[inline(always)]
    pub(super) fn add<L: Lanes>(&mut self, lanes: L, later: &PartialSums<'_>) {
        for query in 0..self.total.len() {
            let [before, after] = [self.largest[query], later.largest[query]];
            let largest = before.max(after);
            let before = shrink(lanes, before, largest);
            let after = shrink(lanes, after, largest);
            self.largest[query] = largest;
            self.total[query] = self.total[query] * before + later.total[query] * after;
            let (before, after) = (lanes.splat(before), lanes.splat(after));
            // SAFETY: one query at a time, and the two are apart.
            let (out, added) = unsafe { (self.out.get(query), later.out.get(query)) };
            for (out, added) in out.chunks_mut(L::COUNT).zip(added.chunks(L::COUNT)) {
                let kept = lanes.mul(lanes.read(out), before);
                lanes.write(lanes.mul_add(lanes.read(added), after, kept), out);
            }
        }
    }

    /// Makes weighted means of the sums.
    #[inline(always)]
    pub(super) fn finish<L: Lanes>(&mut self, lanes: L) {
        for (query, total) in self.total.iter().enumerate() {
            let total = lanes.splat(*total);
            // SAFETY: one query at a time.
            for out in unsafe { self.out.get(query) }.chunks_mut(L::COUNT) {
                lanes.write(lanes.div(lanes.read(out), total), out);
            }
        }
    }
}

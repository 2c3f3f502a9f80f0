//! The softmax of sixteen queries, carried from block to block: a lane is a query.
//!
//! Scores are powers of 2 here, so weights need no logarithm of 2; and they will be rounded to
//! bf16, so a cheap exponential will do.

use half::bf16;

use crate::lanes::{Lanes, StripLanes};
use crate::strips::{BLOCK_COLUMNS, STRIP_ROWS};

/// What sixteen queries have seen so far.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) largest: [f32; STRIP_ROWS],
    /// Sum of the weights.
    pub(super) total: [f32; STRIP_ROWS],
}

impl Seen {
    /// A number below all scores, but a number: queries that see no key of a block stay as they
    /// are.
    pub(super) const NOTHING: Seen =
        Seen { largest: [f32::MIN; STRIP_ROWS], total: [0.0; STRIP_ROWS] };

    /// Turns scores into weights relative to the largest score so far, two neighbouring keys side
    /// by side. Returns what earlier sums must be scaled by, unless that is 1 for all.
    ///
    /// scores: `[keys, 16]` · weights: `[keys / 2, 16, 2]`
    #[inline(always)]
    pub(super) fn carry_on<S: StripLanes>(
        &mut self,
        lanes: S,
        scores: &[f32],
        weights: &mut [bf16],
    ) -> Option<[f32; STRIP_ROWS]> {
        assert_eq!(scores.len(), weights.len(), "a weight for each score");
        let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
        let mut shrink = [1.0; STRIP_ROWS];
        let mut grown = 0f32;
        for lane in (0..STRIP_ROWS).step_by(count) {
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
                let (first, second) = pair.split_at(STRIP_ROWS);
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
}

/// The largest scores of the queries from `lane` on.
#[inline(always)]
fn largest<L: Lanes>(lanes: L, scores: &[f32], lane: usize) -> L::Vector {
    // Four at a time do not wait for each other.
    let mut most = [lanes.splat(f32::MIN); 4];
    for keys in scores.as_chunks::<{ 4 * STRIP_ROWS }>().0 {
        for (i, most) in most.iter_mut().enumerate() {
            *most = lanes.max(*most, lanes.read(&keys[i * STRIP_ROWS + lane..]));
        }
    }
    let [a, b, c, d] = most;
    lanes.max(lanes.max(a, b), lanes.max(c, d))
}

/// Makes scores of keys outside a query's `starts..ends` infinitely small. Keys are counted from
/// `first` on.
///
/// scores: `[keys, 16]`
#[inline(always)]
pub(super) fn hide<L: Lanes>(
    lanes: L,
    scores: &mut [f32],
    first: usize,
    starts: &[f32; STRIP_ROWS],
    ends: &[f32; STRIP_ROWS],
) {
    for lane in (0..STRIP_ROWS).step_by(L::COUNT) {
        let (start, end) = (lanes.read(&starts[lane..]), lanes.read(&ends[lane..]));
        for (i, scores) in scores.chunks_exact_mut(STRIP_ROWS).enumerate() {
            let (key, next) = ((first + i) as f32, (first + i + 1) as f32);
            let seen = lanes.unless_less(lanes.splat(1.0), lanes.splat(key), start);
            let seen = lanes.unless_less(seen, end, lanes.splat(next));
            // Infinite: above all scores where the key is seen, below where it is not.
            let limit = lanes.sub(seen, lanes.splat(0.5));
            let limit = lanes.mul(limit, lanes.splat(f32::INFINITY));
            let score = lanes.min(lanes.read(&scores[lane..]), limit);
            lanes.write(score, &mut scores[lane..]);
        }
    }
}

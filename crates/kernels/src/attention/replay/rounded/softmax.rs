//! The softmax of some queries over a block of slots, carried from block to block.
//!
//! Scores are powers of 2 here, so shares need no logarithm of 2; and shares will be rounded to
//! bf16, so a cheap exponential will do.

use half::bf16;

use super::query_run::{QueryRun, Sight, if_seen, sees};
use super::slot_positions::SlotPositions;
use crate::cpu::lanes::{Lanes, PanelKernel, PanelLanes};
use crate::linear::packed::PairSums;
use crate::tiles::{BLOCK_COLUMNS, TILE_NUMBERS, TILE_ROWS, write_bf16};

/// A number below all scores, but a number: the largest of no scores.
pub(super) const NOTHING_SEEN: f32 = f32::MIN;

pub(super) struct Softmax<'a, O> {
    pub(super) run: QueryRun<'a>,
    pub(super) slots: &'a SlotPositions,
    /// Of each 32 slots.
    pub(super) sights: &'a [Sight],
    /// Products of the queries with each 32 slots; not read where nothing is seen.
    pub(super) scores: &'a mut [PairSums],
    /// Of scores that are powers of 2.
    pub(super) scale: f32,
    /// Of each query: its largest score so far, and the sum of its shares relative to that.
    pub(super) largest: &'a mut [f32],
    pub(super) total: &'a mut [f32],
    /// Shares relative to the largest score, in tiles of sixteen queries.
    pub(super) shares: [&'a mut [bf16]; 2],
    /// A query's weighted values so far, which are made relative to the largest score too.
    pub(super) out: O,
}

impl<'o, O: Fn(usize) -> &'o mut [f32]> PanelKernel for Softmax<'_, O> {
    type Output = ();

    fn reference(mut self) {
        for query in 0..self.run.count {
            let bounds = self.run.bounds(query);
            let mut most = self.largest[query];
            for (run, scores) in self.scores.iter_mut().enumerate() {
                let positions = self.slots.run(run);
                for (score, position) in scores.row_mut(query).iter_mut().zip(positions) {
                    let is_seen = sees(bounds, *position);
                    *score = if is_seen { *score * self.scale } else { f32::NEG_INFINITY };
                    most = most.max(*score);
                }
            }
            let shrink = (self.largest[query] - most).exp2();
            self.total[query] *= shrink;
            for run in 0..self.scores.len() {
                let shares = self.scores[run].row(query).map(|score| (score - most).exp2());
                self.total[query] += shares.iter().sum::<f32>();
                self.tile_row(query, run).copy_from_slice(&shares.map(bf16::from_f32));
            }
            self.largest[query] = most;
            (self.out)(query).iter_mut().for_each(|out| *out *= shrink);
        }
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(mut self, lanes: S) {
        let base = lanes.floats();
        for query in 0..self.run.count {
            let earlier = self.largest[query];
            let most = base.largest(self.scale_scores(base, query));
            let total = self.share(lanes, query, most);
            if earlier == most {
                self.total[query] += total;
                continue;
            }
            let mut shrink = [0.0];
            base.write(base.exp2(base.splat(earlier - most)), &mut shrink);
            self.largest[query] = most;
            self.total[query] = self.total[query] * shrink[0] + total;
            let shrink = base.splat(shrink[0]);
            for out in (self.out)(query).chunks_mut(<S::Floats as Lanes>::COUNT) {
                base.write(base.mul(base.read(out), shrink), out);
            }
        }
    }
}

impl<O> Softmax<'_, O> {
    /// Scales a query's scores, makes those of slots that it does not see infinitely small, and
    /// gives the largest, or the largest so far.
    #[inline(always)]
    fn scale_scores<L: Lanes>(&mut self, lanes: L, query: usize) -> L::Vector {
        let [oldest, newest] = self.run.bounds(query);
        let bounds = [lanes.splat(oldest), lanes.splat(newest)];
        let scale = lanes.splat(self.scale);
        let mut most = lanes.splat(self.largest[query]);
        for (run, (scores, sight)) in self.scores.iter_mut().zip(self.sights).enumerate() {
            if *sight == Sight::Nothing {
                continue;
            }
            let positions = self.slots.run(run).chunks_exact(L::COUNT);
            let scores = scores.row_mut(query).chunks_exact_mut(L::COUNT);
            for (scores, positions) in scores.zip(positions) {
                let mut score = lanes.mul(lanes.read(scores), scale);
                if *sight == Sight::Part {
                    let seen = if_seen(lanes, lanes.splat(1.0), bounds, lanes.read(positions));
                    // Infinite: above all scores where the slot is seen, below where it is not.
                    let limit = lanes.sub(seen, lanes.splat(0.5));
                    score = lanes.min(score, lanes.mul(limit, lanes.splat(f32::INFINITY)));
                }
                most = lanes.max(most, score);
                lanes.write(score, scores);
            }
        }
        most
    }

    /// Makes a query's scores shares, and gives their sum.
    #[inline(always)]
    fn share<S: PanelLanes>(&mut self, lanes: S, query: usize, most: f32) -> f32 {
        let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
        let shift = base.splat(most);
        let mut total = base.splat(0.0);
        for run in 0..self.scores.len() {
            let start = tile_row_start(query, run);
            let shares = &mut self.shares[query / TILE_ROWS][start..start + BLOCK_COLUMNS];
            if self.sights[run] == Sight::Nothing {
                shares.fill(bf16::ZERO);
                continue;
            }
            let scores = self.scores[run].row(query).chunks_exact(2 * count);
            for (scores, shares) in scores.zip(shares.chunks_exact_mut(2 * count)) {
                let (first, second) = scores.split_at(count);
                let first = base.exp2(base.sub(base.read(first), shift));
                let both = [first, base.exp2(base.sub(base.read(second), shift))];
                total = base.add(total, base.add(both[0], both[1]));
                write_bf16(lanes, both, shares);
            }
        }
        base.sum(total)
    }

    fn tile_row(&mut self, query: usize, run: usize) -> &mut [bf16] {
        let start = tile_row_start(query, run);
        &mut self.shares[query / TILE_ROWS][start..start + BLOCK_COLUMNS]
    }
}

/// Where in the tiles of sixteen queries the row of a query with 32 slots begins.
#[inline(always)]
fn tile_row_start(query: usize, run: usize) -> usize {
    run * TILE_NUMBERS + query % TILE_ROWS * BLOCK_COLUMNS
}

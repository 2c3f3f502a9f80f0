//! From the products of 32 queries with 32 slots to shares and the gradients of scores, both ways
//! round: rows are queries, or rows are slots.
//!
//! `share = 2^(score - log_sum)`, `d_score = scale share (d_share - mean)`: scores and their sums
//! are powers of 2, and the mean is that of a query's `d_share`, `d_out · out`.

use half::bf16;

use super::query_lanes::QueryLanes;
use super::query_run::{QueryRun, Sight, if_seen, sees};
use crate::cpu::lanes::{Lanes, PanelKernel, PanelLanes};
use crate::linear::packed::PairSums;
use crate::tiles::{BLOCK_COLUMNS, TILE_ROWS, write_bf16};

/// The products, and what the scores among them are multiplied by.
#[derive(Clone, Copy)]
pub(super) struct Products<'a> {
    pub(super) scores: &'a PairSums,
    pub(super) d_shares: &'a PairSums,
    pub(super) scale: f32,
}

/// Rows are queries: gradients of scores go to the tiles of sixteen queries each.
pub(super) struct OfQueries<'a> {
    pub(super) run: QueryRun<'a>,
    /// Of powers of 2.
    pub(super) log_sums: &'a [f32],
    pub(super) means: &'a [f32],
    pub(super) sight: Sight,
    pub(super) positions: &'a [f32; BLOCK_COLUMNS],
    pub(super) products: Products<'a>,
    pub(super) d_scores: [&'a mut [bf16]; 2],
}

/// Rows are slots: shares and gradients of scores go to the tiles of sixteen slots each.
pub(super) struct OfSlots<'a> {
    pub(super) lanes: &'a QueryLanes,
    pub(super) sight: Sight,
    /// Of slots that there are.
    pub(super) positions: &'a [f32],
    pub(super) products: Products<'a>,
    pub(super) shares: [&'a mut [bf16]; 2],
    pub(super) d_scores: [&'a mut [bf16]; 2],
}

/// A share, and the gradient of its score.
fn plainly(
    products: &Products<'_>,
    [row, lane]: [usize; 2],
    [log_sum, mean]: [f32; 2],
    is_seen: bool,
) -> [f32; 2] {
    let Products { scores, d_shares, scale } = products;
    let power = f64::from(scores.row(row)[lane] * scale * std::f32::consts::LOG2_E);
    let share = if is_seen { (power - f64::from(log_sum)).exp2() as f32 } else { 0.0 };
    [share, share * (d_shares.row(row)[lane] - mean) * scale]
}

/// Who sees whom, in vectors.
#[derive(Clone, Copy)]
struct Seen<V> {
    sight: Sight,
    bounds: [V; 2],
    position: V,
}

// No closure here has instructions of the level: it would be compiled without them, and call each.

/// As [`plainly`], of a row's numbers from `at` on.
#[inline(always)]
fn over_lanes<L: Lanes>(
    lanes: L,
    products: &Products<'_>,
    [row, at]: [usize; 2],
    [log_sum, mean]: [L::Vector; 2],
    seen: Seen<L::Vector>,
) -> [L::Vector; 2] {
    let power = lanes.splat(products.scale * std::f32::consts::LOG2_E);
    let score = lanes.mul(lanes.read(&products.scores.row(row)[at..]), power);
    // What is not seen may be larger.
    let power = lanes.min(lanes.sub(score, log_sum), lanes.splat(0.0));
    let mut share = lanes.exp2(power);
    if seen.sight != Sight::Whole {
        share = if_seen(lanes, share, seen.bounds, seen.position);
    }
    let rest = lanes.sub(lanes.read(&products.d_shares.row(row)[at..]), mean);
    [share, lanes.mul(lanes.mul(share, lanes.splat(products.scale)), rest)]
}

impl PanelKernel for OfQueries<'_> {
    type Output = ();

    fn reference(mut self) {
        for query in 0..self.run.count {
            let bounds = self.run.bounds(query);
            let sums = [self.log_sums[query], self.means[query]];
            for (lane, position) in self.positions.iter().enumerate() {
                let is_seen = sees(bounds, *position);
                let [_, d_score] = plainly(&self.products, [query, lane], sums, is_seen);
                tile_row(&mut self.d_scores, query)[lane] = bf16::from_f32(d_score);
            }
        }
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(mut self, lanes: S) {
        let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
        for query in 0..self.run.count {
            let [oldest, newest] = self.run.bounds(query);
            let bounds = [base.splat(oldest), base.splat(newest)];
            let sums = [base.splat(self.log_sums[query]), base.splat(self.means[query])];
            let out = tile_row(&mut self.d_scores, query);
            for (i, out) in out.chunks_exact_mut(2 * count).enumerate() {
                let mut both = [base.splat(0.0); 2];
                for (half, d_score) in both.iter_mut().enumerate() {
                    let at = (2 * i + half) * count;
                    let position = base.read(&self.positions[at..]);
                    let seen = Seen { sight: self.sight, bounds, position };
                    *d_score = over_lanes(base, &self.products, [query, at], sums, seen)[1];
                }
                write_bf16(lanes, both, out);
            }
        }
    }
}

impl PanelKernel for OfSlots<'_> {
    type Output = ();

    fn reference(mut self) {
        let lanes = self.lanes;
        for (slot, position) in self.positions.iter().enumerate() {
            for query in 0..BLOCK_COLUMNS {
                let is_seen = sees([lanes.oldest[query], lanes.newest[query]], *position);
                let sums = [lanes.log_sums[query], lanes.means[query]];
                let [share, d_score] = plainly(&self.products, [slot, query], sums, is_seen);
                tile_row(&mut self.shares, slot)[query] = bf16::from_f32(share);
                tile_row(&mut self.d_scores, slot)[query] = bf16::from_f32(d_score);
            }
        }
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(mut self, lanes: S) {
        let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
        let queries = self.lanes;
        for (slot, position) in self.positions.iter().enumerate() {
            let position = base.splat(*position);
            let shares = tile_row(&mut self.shares, slot).chunks_exact_mut(2 * count);
            let d_scores = tile_row(&mut self.d_scores, slot).chunks_exact_mut(2 * count);
            for (i, (shares, d_scores)) in shares.zip(d_scores).enumerate() {
                let mut both = [[base.splat(0.0); 2]; 2];
                for (half, of_half) in both.iter_mut().enumerate() {
                    let at = (2 * i + half) * count;
                    let oldest = base.read(&queries.oldest[at..]);
                    let bounds = [oldest, base.read(&queries.newest[at..])];
                    let log_sum = base.read(&queries.log_sums[at..]);
                    let sums = [log_sum, base.read(&queries.means[at..])];
                    let seen = Seen { sight: self.sight, bounds, position };
                    *of_half = over_lanes(base, &self.products, [slot, at], sums, seen);
                }
                let [first, second] = both;
                write_bf16(lanes, [first[0], second[0]], shares);
                write_bf16(lanes, [first[1], second[1]], d_scores);
            }
        }
    }
}

/// A row of two tiles of sixteen each.
#[inline(always)]
fn tile_row<'t>(tiles: &'t mut [&mut [bf16]; 2], row: usize) -> &'t mut [bf16] {
    let start = row % TILE_ROWS * BLOCK_COLUMNS;
    &mut tiles[row / TILE_ROWS][start..start + BLOCK_COLUMNS]
}

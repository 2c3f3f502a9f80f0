//! How much a chunk's queries attended to each slot: what a policy scores by.

use terrace_device::{SharedRows, View, ViewMut};

use super::args::ReplayQueries;
use super::d_slots::BLOCK_SLOTS;
use super::head_rows::HeadRows;
use super::visible::Visible;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::tiles::products;

/// Queries that meet a block of slots at a time.
const TILE_QUERIES: usize = 64;

/// weights: f32 `[seqs * kv_heads, filled]`, written: for each slot the weights of all queries,
/// the mean over the heads that share it · log_sums: as [`attend`](super::attend) left them
pub(crate) fn weight_sums(
    ctx: &CpuCtx,
    queries: ReplayQueries<'_>,
    log_sums: View<'_>,
    mut weights: ViewMut<'_>,
) {
    queries.check();
    let (at, filled) = (queries.at, queries.slots.filled);
    assert_eq!(weights.dims(), [at.seqs * at.kv_heads, filled], "weights of weight_sums");
    assert_eq!(log_sums.dims(), [at.seqs * at.row_tokens, at.heads], "log_sums of weight_sums");
    let weights = SharedRows::<f32>::new(&mut weights);
    let blocks = filled.div_ceil(BLOCK_SLOTS);
    ctx.run_with_scratch(at.seqs * at.kv_heads * blocks, &|scratch, task| {
        let (row, start) = (task / blocks, task % blocks * BLOCK_SLOTS);
        let end = filled.min(start + BLOCK_SLOTS);
        // SAFETY: each block of slots is one task's.
        let weights = unsafe { weights.part_mut(row, start..end) };
        let dim = at.dim;
        ctx.simd.run(Block {
            queries,
            log_sums,
            row,
            keys: &queries.slots.keys.row::<f32>(row)[start * dim..end * dim],
            positions: &queries.slots.positions.row::<i32>(row)[start..end],
            weights,
            scratch,
        });
    });
}

struct Block<'a> {
    queries: ReplayQueries<'a>,
    log_sums: View<'a>,
    /// The kv head of a sequence.
    row: usize,
    keys: &'a [f32],
    positions: &'a [i32],
    weights: &'a mut [f32],
    scratch: &'a mut [f32],
}

impl Block<'_> {
    /// The heads that share the kv head.
    fn heads(&self) -> impl Iterator<Item = HeadRows> + use<> {
        let at = self.queries.at;
        let (seq, kv_head) = (self.row / at.kv_heads, self.row % at.kv_heads);
        let heads = kv_head * at.group_heads()..(kv_head + 1) * at.group_heads();
        heads.map(move |head| HeadRows { at, seq, head, first: 0 })
    }
}

impl Kernel for Block<'_> {
    fn reference(mut self) {
        let weights = std::mem::take(&mut self.weights);
        let (at, scale) = (self.queries.at, f64::from(self.queries.scale));
        for (slot, weight) in weights.iter_mut().enumerate() {
            let key = &self.keys[slot * at.dim..(slot + 1) * at.dim];
            let mut sum = 0.0;
            for rows in self.heads() {
                for token in 0..at.tokens {
                    if Visible::of(&self.queries, token).sees(self.positions[slot]) {
                        let query = rows.read(self.queries.query, token);
                        let score = super::reference::dot(query, key) * scale;
                        sum += (score - f64::from(rows.number(self.log_sums, token))).exp();
                    }
                }
            }
            *weight = (sum / at.group_heads() as f64) as f32;
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let heads = self.heads();
        let Block { queries, log_sums, keys, positions, weights, scratch: scores, .. } = self;
        let (at, width) = (queries.at, positions.len());
        weights.fill(0.0);
        for rows in heads {
            for first in (0..at.tokens).step_by(TILE_QUERIES) {
                let rows = HeadRows { first, ..rows };
                let tokens = TILE_QUERIES.min(at.tokens - first);
                let query = |token| rows.read(queries.query, token);
                products(lanes, tokens, query, keys, at.dim, |products| {
                    products.write(&mut scores[products.row * width..][..width]);
                });
                for token in 0..tokens {
                    let scores = &mut scores[token * width..(token + 1) * width];
                    let visible = Visible::of(&queries, first + token);
                    visible.scale(scores, positions, queries.scale);
                    let log_sum = lanes.splat(rows.number(log_sums, token));
                    let both = weights.chunks_mut(L::COUNT).zip(scores.chunks(L::COUNT));
                    for (sums, scores) in both {
                        let share = lanes.exp(lanes.sub(lanes.read(scores), log_sum));
                        lanes.write(lanes.add(lanes.read(sums), share), sums);
                    }
                }
            }
        }
        let inverse = 1.0 / at.group_heads() as f32;
        weights.iter_mut().for_each(|weight| *weight *= inverse);
    }
}

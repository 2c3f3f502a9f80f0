//! The gradients of keys and values in slots: a task is a block of slots of one kv head, which all
//! queries of the chunk and of the heads that share it meet in order.

use std::ops::Range;

use terrace_device::{SharedRows, View};

use super::args::{ReplayGradients, ReplayQueries};
use super::d_query::dot;
use super::head_rows::HeadRows;
use super::reference;
use super::visible::Visible;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::linear::accumulate::accumulate;
use crate::tiles::products;

/// Slots of a task.
pub(super) const BLOCK_SLOTS: usize = 64;
/// Queries that meet them at a time: both tiles of scores stay in cache.
const TILE_QUERIES: usize = 64;

pub(super) fn d_slots(ctx: &CpuCtx, args: &mut ReplayGradients<'_>) {
    let (queries, at) = (args.queries, args.queries.at);
    let (out, log_sums, d_out) = (args.out, args.log_sums, args.d_out);
    let (d_keys, d_values) =
        (SharedRows::new(&mut args.d_keys), SharedRows::new(&mut args.d_values));
    let filled = queries.slots.filled;
    let blocks = filled.div_ceil(BLOCK_SLOTS);
    ctx.run_with_scratch(at.seqs * at.kv_heads * blocks, &|scratch, task| {
        let (row, start) = (task / blocks, task % blocks * BLOCK_SLOTS);
        let slots = start..filled.min(start + BLOCK_SLOTS);
        let (d_keys, d_values) = (&d_keys, &d_values);
        let scratch = &mut scratch[..2 * TILE_QUERIES * BLOCK_SLOTS];
        ctx.simd.run(Block {
            queries,
            out,
            log_sums,
            d_out,
            row,
            slots,
            d_keys,
            d_values,
            scratch,
        });
    });
}

struct Block<'a> {
    queries: ReplayQueries<'a>,
    out: View<'a>,
    log_sums: View<'a>,
    d_out: View<'a>,
    /// The kv head of a sequence.
    row: usize,
    slots: Range<usize>,
    d_keys: &'a SharedRows<'a, f32>,
    d_values: &'a SharedRows<'a, f32>,
    scratch: &'a mut [f32],
}

impl<'a> Block<'a> {
    /// The heads that share the kv head, with the first query of each tile, and how many it has.
    fn tiles(&self) -> impl Iterator<Item = (HeadRows, usize)> + use<> {
        let at = self.queries.at;
        let (seq, kv_head) = (self.row / at.kv_heads, self.row % at.kv_heads);
        let heads = kv_head * at.group_heads()..(kv_head + 1) * at.group_heads();
        heads.flat_map(move |head| {
            (0..at.tokens).step_by(TILE_QUERIES).map(move |first| {
                (HeadRows { at, seq, head, first }, TILE_QUERIES.min(at.tokens - first))
            })
        })
    }

    /// The block's part of keys or values of slots.
    fn part(&self, view: View<'a>) -> &'a [f32] {
        let dim = self.queries.at.dim;
        &view.row::<f32>(self.row)[self.slots.start * dim..self.slots.end * dim]
    }

    fn positions(&self) -> &'a [i32] {
        &self.queries.slots.positions.row::<i32>(self.row)[self.slots.clone()]
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn gradient(&self, rows: &'a SharedRows<'a, f32>, slot: usize) -> &'a mut [f32] {
        let (dim, slot) = (self.queries.at.dim, self.slots.start + slot);
        // SAFETY: the block's slots are this task's, and each is asked for once at a time.
        unsafe { rows.part_mut(self.row, slot * dim..(slot + 1) * dim) }
    }
}

impl Kernel for Block<'_> {
    fn reference(self) {
        let (slots, scale) = (self.queries.slots, self.queries.scale);
        let whole = |view: View<'_>| -> Vec<f32> {
            view.row::<f32>(self.row)[..slots.filled * self.queries.at.dim].to_vec()
        };
        let (keys, values) = (whole(slots.keys), whole(slots.values));
        let positions = slots.positions.row::<i32>(self.row);
        for (rows, tokens) in self.tiles() {
            for token in 0..tokens {
                let visible = Visible::of(&self.queries, rows.first + token);
                let query = rows.read(self.queries.query, token);
                let seen = |slot: usize| visible.sees(positions[slot]);
                let (shares, _) = reference::shares(query, &keys, scale, seen);
                let [out, d_out] = [self.out, self.d_out].map(|view| rows.read(view, token));
                let d_scores = reference::score_gradients(&shares, &values, out, d_out);
                for (i, slot) in self.slots.clone().enumerate() {
                    let d_score = (d_scores[slot] * f64::from(scale)) as f32;
                    let d_key = self.gradient(self.d_keys, i);
                    d_key.iter_mut().zip(query).for_each(|(d, q)| *d += d_score * q);
                    let d_value = self.gradient(self.d_values, i);
                    let share = shares[slot] as f32;
                    d_value.iter_mut().zip(d_out).for_each(|(d, d_out)| *d += share * d_out);
                }
            }
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(mut self, lanes: L) {
        let (slots, dim, scale) = (self.queries.slots, self.queries.at.dim, self.queries.scale);
        let (keys, values, width) =
            (self.part(slots.keys), self.part(slots.values), self.slots.len());
        let scratch = std::mem::take(&mut self.scratch);
        let (scores, d_shares) = scratch.split_at_mut(TILE_QUERIES * BLOCK_SLOTS);
        for (rows, tokens) in self.tiles() {
            let query = |token| rows.read(self.queries.query, token);
            let d_out = |token| rows.read(self.d_out, token);
            products(lanes, tokens, query, keys, dim, |products| {
                products.write(&mut scores[products.row * width..][..width]);
            });
            products(lanes, tokens, d_out, values, dim, |products| {
                products.write(&mut d_shares[products.row * width..][..width]);
            });
            for token in 0..tokens {
                let scores = &mut scores[token * width..(token + 1) * width];
                let d_shares = &mut d_shares[token * width..(token + 1) * width];
                let visible = Visible::of(&self.queries, rows.first + token);
                visible.scale(scores, self.positions(), scale);
                let log_sum = rows.number(self.log_sums, token);
                let mean = dot(rows.read(self.out, token), d_out(token));
                let both = scores.chunks_mut(L::COUNT).zip(d_shares.chunks_mut(L::COUNT));
                for (scores, d_shares) in both {
                    let share = lanes.exp(lanes.sub(lanes.read(scores), lanes.splat(log_sum)));
                    let rest = lanes.sub(lanes.read(d_shares), lanes.splat(mean));
                    let d_score = lanes.mul(share, lanes.mul(rest, lanes.splat(scale)));
                    lanes.write(share, scores);
                    lanes.write(d_score, d_shares);
                }
            }
            let (shares, d_scores) = (&*scores, &*d_shares);
            let d_value = |slot| self.gradient(self.d_values, slot);
            accumulate(lanes, width, tokens, |slot, k| shares[k * width + slot], d_out, d_value);
            let d_key = |slot| self.gradient(self.d_keys, slot);
            accumulate(lanes, width, tokens, |slot, k| d_scores[k * width + slot], query, d_key);
        }
    }
}

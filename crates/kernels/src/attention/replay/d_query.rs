//! The gradient of a chunk's queries: a task is some queries of one head.

use terrace_device::{SharedRows, View};

use super::args::{ReplayGradients, ReplayQueries};
use super::attend::queries_of_task;
use super::head_rows::{HeadRows, of_slots};
use super::reference;
use super::visible::Visible;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::linear::accumulate::accumulate;
use crate::tiles::products;

pub(super) fn d_query(ctx: &CpuCtx, args: &mut ReplayGradients<'_>) {
    let (queries, at) = (args.queries, args.queries.at);
    let (out, log_sums, d_out) = (args.out, args.log_sums, args.d_out);
    let d_query = SharedRows::new(&mut args.d_query);
    let step = queries_of_task(queries.slots.filled);
    let tasks_of_head = at.tokens.div_ceil(step);
    ctx.run_with_scratch(at.seqs * at.heads * tasks_of_head, &|scratch, task| {
        let (head, first) = (task / tasks_of_head, task % tasks_of_head * step);
        let (seq, head) = (head / at.heads, head % at.heads);
        let rows = HeadRows { at, seq, head, first };
        let tokens = step.min(at.tokens - first);
        let d_query = &d_query;
        ctx.simd.run(Queries { queries, out, log_sums, d_out, rows, tokens, d_query, scratch });
    });
}

struct Queries<'a> {
    queries: ReplayQueries<'a>,
    out: View<'a>,
    log_sums: View<'a>,
    d_out: View<'a>,
    rows: HeadRows,
    tokens: usize,
    d_query: &'a SharedRows<'a, f32>,
    scratch: &'a mut [f32],
}

impl Queries<'_> {
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn d_query(&self, token: usize) -> &mut [f32] {
        // SAFETY: these queries of this head are one task's, and each is asked for once at a time.
        unsafe { self.rows.write(self.d_query, token) }
    }
}

impl Kernel for Queries<'_> {
    fn reference(self) {
        let slots = self.queries.slots;
        let (row, scale) = (self.rows.slot_row(), self.queries.scale);
        let [keys, values] = [slots.keys, slots.values].map(|v| of_slots(v, row, slots.filled));
        let positions = &slots.positions.row::<i32>(row)[..slots.filled];
        for token in 0..self.tokens {
            let visible = Visible::of(&self.queries, self.rows.first + token);
            let query = self.rows.read(self.queries.query, token);
            let seen = |slot: usize| visible.sees(positions[slot]);
            let (shares, _) = reference::shares(query, keys, scale, seen);
            let [out, d_out] = [self.out, self.d_out].map(|view| self.rows.read(view, token));
            let d_scores = reference::score_gradients(&shares, values, out, d_out);
            let scaled: Vec<f64> = d_scores.iter().map(|d| d * f64::from(scale)).collect();
            reference::weigh(&scaled, keys, self.d_query(token));
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(mut self, lanes: L) {
        let (slots, dim) = (self.queries.slots, self.queries.at.dim);
        let (row, filled, scale) = (self.rows.slot_row(), slots.filled, self.queries.scale);
        let [keys, values] = [slots.keys, slots.values].map(|view| of_slots(view, row, filled));
        let positions = &slots.positions.row::<i32>(row)[..filled];
        let scratch = std::mem::take(&mut self.scratch);
        let (scores, d_shares) = scratch.split_at_mut(self.tokens * filled);
        let d_shares = &mut d_shares[..self.tokens * filled];
        let query = |token| self.rows.read(self.queries.query, token);
        let d_out = |token| self.rows.read(self.d_out, token);
        products(lanes, self.tokens, query, keys, dim, |products| {
            products.write(&mut scores[products.row * filled..][..filled]);
        });
        products(lanes, self.tokens, d_out, values, dim, |products| {
            products.write(&mut d_shares[products.row * filled..][..filled]);
        });
        let both = scores.chunks_exact_mut(filled).zip(d_shares.chunks_exact(filled));
        for (token, (scores, d_shares)) in both.enumerate() {
            Visible::of(&self.queries, self.rows.first + token).scale(scores, positions, scale);
            let log_sum = self.rows.number(self.log_sums, token);
            let mean = dot(self.rows.read(self.out, token), d_out(token));
            score_gradients(lanes, [log_sum, mean, scale], scores, d_shares);
            self.d_query(token).fill(0.0);
        }
        accumulate(
            lanes,
            self.tokens,
            filled,
            |token, slot| scores[token * filled + slot],
            |slot| &keys[slot * dim..(slot + 1) * dim],
            |token| self.d_query(token),
        );
    }
}

/// Scaled scores become `scale` times their gradients; `mean` is `d_out · out`.
#[inline(always)]
fn score_gradients<L: Lanes>(
    lanes: L,
    [log_sum, mean, scale]: [f32; 3],
    scores: &mut [f32],
    d_shares: &[f32],
) {
    let (log_sum, mean, scale) = (lanes.splat(log_sum), lanes.splat(mean), lanes.splat(scale));
    for (scores, d_shares) in scores.chunks_mut(L::COUNT).zip(d_shares.chunks(L::COUNT)) {
        let share = lanes.exp(lanes.sub(lanes.read(scores), log_sum));
        let rest = lanes.mul(lanes.sub(lanes.read(d_shares), mean), scale);
        lanes.write(lanes.mul(share, rest), scores);
    }
}

#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

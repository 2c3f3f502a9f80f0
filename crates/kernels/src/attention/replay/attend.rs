//! The chunk's attention: a task is some queries of one head.

use terrace_device::{SharedRows, ViewMut};

use super::args::ReplayQueries;
use super::head_rows::{HeadRows, of_slots};
use super::limits::SLOTS_MOST;
use super::reference;
use super::rounded;
use super::visible::Visible;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::linear::accumulate::accumulate;
use crate::tiles::products;

/// Most queries of a task: their scores lie in the worker's memory.
pub(super) const QUERIES: usize = 16;

/// Queries of a task, of which each has its scores with so many slots, twice.
pub(super) fn queries_of_task(filled: usize) -> usize {
    (SLOTS_MOST / filled.max(1)).clamp(1, QUERIES)
}

/// out: the chunk's rows are written, as those of log_sums, f32 `[seqs * row_tokens, heads]`
pub(crate) fn attend(
    ctx: &CpuCtx,
    queries: ReplayQueries<'_>,
    mut out: ViewMut<'_>,
    mut log_sums: ViewMut<'_>,
) {
    queries.check();
    let at = queries.at;
    at.check_rows(out.as_view(), at.heads, "out");
    assert_eq!(log_sums.dims(), [at.seqs * at.row_tokens, at.heads], "log_sums of attend");
    let (out, log_sums) = (SharedRows::new(&mut out), SharedRows::new(&mut log_sums));
    if rounded::takes(ctx, &queries) {
        return rounded::attend(ctx, &queries, &out, &log_sums);
    }
    let step = queries_of_task(queries.slots.filled);
    let tasks_of_head = at.tokens.div_ceil(step);
    ctx.run_with_scratch(at.seqs * at.heads * tasks_of_head, &|scratch, task| {
        let (head, first) = (task / tasks_of_head, task % tasks_of_head * step);
        let (seq, head) = (head / at.heads, head % at.heads);
        let rows = HeadRows { at, seq, head, first };
        let tokens = step.min(at.tokens - first);
        let (out, log_sums) = (&out, &log_sums);
        ctx.simd.run(Queries { queries, rows, tokens, out, log_sums, scratch });
    });
}

struct Queries<'a> {
    queries: ReplayQueries<'a>,
    rows: HeadRows,
    tokens: usize,
    out: &'a SharedRows<'a, f32>,
    log_sums: &'a SharedRows<'a, f32>,
    scratch: &'a mut [f32],
}

impl Queries<'_> {
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn out(&self, token: usize) -> &mut [f32] {
        // SAFETY: these queries of this head are one task's, and each is asked for once at a time.
        unsafe { self.rows.write(self.out, token) }
    }

    fn put_log_sum(&self, token: usize, log_sum: f32) {
        let row = self.queries.at.row(self.rows.seq, self.rows.first + token);
        let head = self.rows.head;
        // SAFETY: as above.
        unsafe { self.log_sums.part_mut(row, head..head + 1)[0] = log_sum };
    }
}

impl Kernel for Queries<'_> {
    fn reference(self) {
        let slots = self.queries.slots;
        let row = self.rows.slot_row();
        let [keys, values] = [slots.keys, slots.values].map(|v| of_slots(v, row, slots.filled));
        let positions = &slots.positions.row::<i32>(row)[..slots.filled];
        for token in 0..self.tokens {
            let visible = Visible::of(&self.queries, self.rows.first + token);
            let query = self.rows.read(self.queries.query, token);
            let seen = |slot: usize| visible.sees(positions[slot]);
            let (shares, log_sum) = reference::shares(query, keys, self.queries.scale, seen);
            reference::weigh(&shares, values, self.out(token));
            self.put_log_sum(token, log_sum);
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(mut self, lanes: L) {
        let (slots, dim) = (self.queries.slots, self.queries.at.dim);
        let (row, filled) = (self.rows.slot_row(), slots.filled);
        let [keys, values] = [slots.keys, slots.values].map(|view| of_slots(view, row, filled));
        let positions = &slots.positions.row::<i32>(row)[..filled];
        let scores = &mut std::mem::take(&mut self.scratch)[..self.tokens * filled];
        let query = |token| self.rows.read(self.queries.query, token);
        products(lanes, self.tokens, query, keys, dim, |products| {
            products.write(&mut scores[products.row * filled..][..filled]);
        });
        for (token, scores) in scores.chunks_exact_mut(filled).enumerate() {
            let visible = Visible::of(&self.queries, self.rows.first + token);
            visible.scale(scores, positions, self.queries.scale);
            let log_sum = softmax(lanes, scores);
            self.put_log_sum(token, log_sum);
            self.out(token).fill(0.0);
        }
        accumulate(
            lanes,
            self.tokens,
            filled,
            |token, slot| scores[token * filled + slot],
            |slot| &values[slot * dim..(slot + 1) * dim],
            |token| self.out(token),
        );
    }
}

/// Scores become shares; gives the logarithm of the sum of their exponentials.
#[inline(always)]
fn softmax<L: Lanes>(lanes: L, scores: &mut [f32]) -> f32 {
    let largest = scores.iter().copied().fold(f32::MIN, f32::max);
    let shift = lanes.splat(largest);
    let mut total = 0.0;
    for scores in scores.chunks_mut(L::COUNT) {
        let power = lanes.exp(lanes.sub(lanes.read(scores), shift));
        lanes.write(power, scores);
        total += scores.iter().sum::<f32>();
    }
    let inverse = 1.0 / total;
    scores.iter_mut().for_each(|score| *score *= inverse);
    largest + total.ln()
}

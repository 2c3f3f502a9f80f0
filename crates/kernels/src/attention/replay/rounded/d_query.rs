//! The gradient of a chunk's queries: a task is some queries of one head, which meet all slots.

use std::ops::Range;

use half::bf16;
use terrace_device::{SharedRows, View};

use super::add_sums::AddSums;
use super::pack::{self, inputs_numbers, packed_numbers, panels_at, runs, tiles_at};
use super::query_run::{QueryRun, Sight};
use super::score_gradients::{OfQueries, Products};
use super::scratch::Scratch;
use super::slot_positions::SlotPositions;
use super::{met_rows, own_rows};
use crate::attention::replay::args::{ReplayGradients, ReplayQueries};
use crate::attention::replay::d_query::dot;
use crate::attention::replay::head_rows::{HeadRows, of_slots};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::Simd;
use crate::linear::packed::{PairSums, SUM_ROWS, Units, multiply_rows, units};
use crate::tiles::{BLOCK_COLUMNS, TILE_NUMBERS, TILE_ROWS};

pub(crate) fn d_query(ctx: &CpuCtx, args: &mut ReplayGradients<'_>) {
    let d_query = SharedRows::new(&mut args.d_query);
    let (queries, forward) = (&args.queries, [args.out, args.log_sums, args.d_out]);
    let (at, own) = (queries.at, own_rows(queries.at.dim));
    let tasks_of_head = at.tokens.div_ceil(own);
    ctx.run_workers_with_scratch(at.seqs * at.heads * tasks_of_head, &|scratch, tasks| {
        let mut units = units(ctx.simd);
        for task in tasks {
            let (head, first) = (task / tasks_of_head, task % tasks_of_head * own);
            let rows = HeadRows { at, seq: head / at.heads, head: head % at.heads, first };
            let count = own.min(at.tokens - first);
            let task = Task { simd: ctx.simd, queries, forward, rows, count, d_query: &d_query };
            task.run(Scratch::of(scratch), &mut units);
        }
    });
}

struct Task<'a> {
    simd: Simd,
    queries: &'a ReplayQueries<'a>,
    /// What came out, the logarithms of its sums, and its gradient.
    forward: [View<'a>; 3],
    rows: HeadRows,
    /// Queries.
    count: usize,
    d_query: &'a SharedRows<'a, f32>,
}

struct Memory<'a> {
    queries: &'a mut [bf16],
    d_out: &'a mut [bf16],
    log_sums: &'a mut [f32],
    means: &'a mut [f32],
    keys: &'a mut [bf16],
    values: &'a mut [bf16],
    key_inputs: &'a mut [bf16],
    d_scores: &'a mut [bf16],
    scores: &'a mut PairSums,
    d_shares: &'a mut PairSums,
    weighted: &'a mut PairSums,
}

impl<'a> Memory<'a> {
    fn of(mut scratch: Scratch<'a>, count: usize, dim: usize) -> Self {
        let met = met_rows(dim);
        Memory {
            queries: scratch.bf16(packed_numbers(count, dim)),
            d_out: scratch.bf16(packed_numbers(count, dim)),
            log_sums: scratch.numbers(count),
            means: scratch.numbers(count),
            keys: scratch.bf16(packed_numbers(met, dim)),
            values: scratch.bf16(packed_numbers(met, dim)),
            key_inputs: scratch.bf16(inputs_numbers(met, dim)),
            d_scores: scratch.bf16(2 * runs(met) * TILE_NUMBERS),
            scores: scratch.one_sums(),
            d_shares: scratch.one_sums(),
            weighted: scratch.one_sums(),
        }
    }
}

impl Task<'_> {
    fn run(&self, scratch: Scratch<'_>, units: &mut Units) {
        let ReplayQueries { at, query, slots, .. } = *self.queries;
        let [out, log_sums, d_out] = self.forward;
        let mut memory = Memory::of(scratch, self.count, at.dim);
        for token in 0..self.count {
            let [out, d_out] = [out, d_out].map(|view| self.rows.read(view, token));
            let log_sum = self.rows.number(log_sums, token);
            memory.log_sums[token] = log_sum * std::f32::consts::LOG2_E;
            memory.means[token] = dot(out, d_out);
            self.d_query(token).fill(0.0);
        }
        for (view, out) in [(query, &mut memory.queries), (d_out, &mut memory.d_out)] {
            let x = |token| self.rows.read(view, token);
            pack::tiles(self.simd, self.count, x, at.dim, out);
        }
        let met = met_rows(at.dim);
        for start in (0..slots.filled).step_by(met) {
            self.meet(start..slots.filled.min(start + met), &mut memory, units);
        }
    }

    /// All queries and a block of slots.
    fn meet(&self, block: Range<usize>, memory: &mut Memory<'_>, units: &mut Units) {
        let ReplayQueries { at, slots, .. } = *self.queries;
        let (row, start) = (self.rows.slot_row(), block.start);
        let positions = SlotPositions::of(&slots.positions.row::<i32>(row)[block.clone()]);
        let all = self.query_run(0, self.count);
        if positions.runs().all(|run| all.sight(positions.ends(run)) == Sight::Nothing) {
            return;
        }
        let [keys, values] = [slots.keys, slots.values].map(|view| {
            let rows = of_slots(view, row, slots.filled);
            move |slot: usize| &rows[(start + slot) * at.dim..][..at.dim]
        });
        pack::lanes(self.simd, block.len(), keys, at.dim, memory.keys);
        pack::lanes(self.simd, block.len(), values, at.dim, memory.values);
        pack::inputs(self.simd, block.len(), keys, at.dim, memory.key_inputs);
        for first in (0..self.count).step_by(SUM_ROWS) {
            let run = self.query_run(first, SUM_ROWS.min(self.count - first));
            self.meet_run(run, &positions, block.len(), memory, units);
        }
    }

    /// Some queries and a block of slots.
    fn meet_run(
        &self,
        run: QueryRun<'_>,
        positions: &SlotPositions,
        slots: usize,
        memory: &mut Memory<'_>,
        units: &mut Units,
    ) {
        let (simd, dim, scale) = (self.simd, self.queries.at.dim, self.queries.scale);
        let first = run.first - self.rows.first;
        let [queries, d_out] = [&*memory.queries, &*memory.d_out]
            .map(|tiles| tiles_at(tiles, first / SUM_ROWS, self.count, dim));
        let [log_sums, means] =
            [&*memory.log_sums, &*memory.means].map(|numbers| &numbers[first..first + run.count]);
        let d_scores = &mut memory.d_scores[..2 * runs(slots) * TILE_NUMBERS];
        let (upper, lower) = d_scores.split_at_mut(runs(slots) * TILE_NUMBERS);
        let tiles = upper.chunks_exact_mut(TILE_NUMBERS).zip(lower.chunks_exact_mut(TILE_NUMBERS));
        for (slot_run, (upper, lower)) in tiles.enumerate() {
            let sight = run.sight(positions.ends(slot_run));
            if sight == Sight::Nothing {
                upper.fill(bf16::ZERO);
                lower.fill(bf16::ZERO);
                continue;
            }
            let keys = panels_at(memory.keys, slot_run, dim);
            let values = panels_at(memory.values, slot_run, dim);
            multiply_rows(simd, units, queries, keys, run.count, memory.scores);
            multiply_rows(simd, units, d_out, values, run.count, memory.d_shares);
            let (scores, d_shares) = (&*memory.scores, &*memory.d_shares);
            simd.run_panels(OfQueries {
                run,
                log_sums,
                means,
                sight,
                positions: positions.run(slot_run),
                products: Products { scores, d_shares, scale },
                d_scores: [upper, lower],
            });
        }
        let d_scores = [&*upper, if TILE_ROWS < run.count { &*lower } else { &[] }];
        for columns in 0..runs(dim) {
            let panels = panels_at(memory.key_inputs, columns, slots);
            multiply_rows(simd, units, d_scores, panels, run.count, memory.weighted);
            simd.run(AddSums {
                sums: memory.weighted,
                rows: run.count,
                column: columns * BLOCK_COLUMNS,
                out: |query| self.d_query(first + query),
            });
        }
    }

    /// Some of the task's queries.
    fn query_run(&self, first: usize, count: usize) -> QueryRun<'_> {
        QueryRun { queries: self.queries, first: self.rows.first + first, count }
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn d_query(&self, token: usize) -> &mut [f32] {
        // SAFETY: these queries of this head are one task's, and each is asked for once at a time.
        unsafe { self.rows.write(self.d_query, token) }
    }
}

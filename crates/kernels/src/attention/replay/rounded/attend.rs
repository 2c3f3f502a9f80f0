//! The chunk's attention: a task is some queries of one head, which meet all slots.

use std::ops::Range;

use half::bf16;
use terrace_device::SharedRows;

use super::add_sums::AddSums;
use super::pack::{self, inputs_numbers, packed_numbers, panels_at, runs, tiles_at};
use super::query_run::{QueryRun, Sight};
use super::scratch::Scratch;
use super::slot_positions::SlotPositions;
use super::softmax::{NOTHING_SEEN, Softmax};
use super::{MET_ROWS_MOST, met_rows, own_rows};
use crate::attention::replay::args::ReplayQueries;
use crate::attention::replay::head_rows::{HeadRows, of_slots};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::Simd;
use crate::linear::packed::{PairSums, SUM_ROWS, Units, multiply_rows, units};
use crate::tiles::{BLOCK_COLUMNS, TILE_NUMBERS, TILE_ROWS};

pub(crate) fn attend(
    ctx: &CpuCtx,
    queries: &ReplayQueries<'_>,
    out: &SharedRows<'_, f32>,
    log_sums: &SharedRows<'_, f32>,
) {
    let (at, own) = (queries.at, own_rows(queries.at.dim));
    let tasks_of_head = at.tokens.div_ceil(own);
    ctx.run_workers_with_scratch(at.seqs * at.heads * tasks_of_head, &|scratch, tasks| {
        let mut units = units(ctx.simd);
        for task in tasks {
            let (head, first) = (task / tasks_of_head, task % tasks_of_head * own);
            let rows = HeadRows { at, seq: head / at.heads, head: head % at.heads, first };
            let count = own.min(at.tokens - first);
            let task = Task { simd: ctx.simd, queries, rows, count, out, log_sums };
            task.run(Scratch::of(scratch), &mut units);
        }
    });
}

struct Task<'a> {
    simd: Simd,
    queries: &'a ReplayQueries<'a>,
    rows: HeadRows,
    /// Queries.
    count: usize,
    out: &'a SharedRows<'a, f32>,
    log_sums: &'a SharedRows<'a, f32>,
}

struct Memory<'a> {
    queries: &'a mut [bf16],
    /// Of the largest score, and sums of shares relative to it.
    largest: &'a mut [f32],
    total: &'a mut [f32],
    keys: &'a mut [bf16],
    values: &'a mut [bf16],
    shares: &'a mut [bf16],
    scores: &'a mut [PairSums],
    weighted: &'a mut PairSums,
}

impl<'a> Memory<'a> {
    fn of(mut scratch: Scratch<'a>, count: usize, dim: usize) -> Self {
        let met = met_rows(dim);
        Memory {
            queries: scratch.bf16(packed_numbers(count, dim)),
            largest: scratch.numbers(count),
            total: scratch.numbers(count),
            keys: scratch.bf16(packed_numbers(met, dim)),
            values: scratch.bf16(inputs_numbers(met, dim)),
            shares: scratch.bf16(2 * runs(met) * TILE_NUMBERS),
            scores: scratch.sums(runs(met)),
            weighted: scratch.one_sums(),
        }
    }
}

impl Task<'_> {
    fn run(&self, scratch: Scratch<'_>, units: &mut Units) {
        let ReplayQueries { at, query, slots, .. } = *self.queries;
        let mut memory = Memory::of(scratch, self.count, at.dim);
        memory.largest.fill(NOTHING_SEEN);
        memory.total.fill(0.0);
        (0..self.count).for_each(|token| self.out(token).fill(0.0));
        let x = |token| self.rows.read(query, token);
        pack::tiles(self.simd, self.count, x, at.dim, memory.queries);
        let met = met_rows(at.dim);
        for start in (0..slots.filled).step_by(met) {
            self.meet(start..slots.filled.min(start + met), &mut memory, units);
        }
        self.finish(&memory);
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
        pack::inputs(self.simd, block.len(), values, at.dim, memory.values);
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
        let (simd, dim) = (self.simd, self.queries.at.dim);
        let mut sights = [Sight::Nothing; MET_ROWS_MOST / BLOCK_COLUMNS];
        let sights = &mut sights[..runs(slots)];
        for (slot_run, sight) in sights.iter_mut().enumerate() {
            *sight = run.sight(positions.ends(slot_run));
        }
        let first = run.first - self.rows.first;
        let tiles = tiles_at(memory.queries, first / SUM_ROWS, self.count, dim);
        let scores = &mut memory.scores[..sights.len()];
        for (slot_run, scores) in scores.iter_mut().enumerate() {
            if sights[slot_run] != Sight::Nothing {
                let panels = panels_at(memory.keys, slot_run, dim);
                multiply_rows(simd, units, tiles, panels, run.count, scores);
            }
        }
        let shares = &mut memory.shares[..2 * sights.len() * TILE_NUMBERS];
        let (upper, lower) = shares.split_at_mut(sights.len() * TILE_NUMBERS);
        simd.run_panels(Softmax {
            run,
            slots: positions,
            sights,
            scores,
            scale: self.queries.scale * std::f32::consts::LOG2_E,
            largest: &mut memory.largest[first..first + run.count],
            total: &mut memory.total[first..first + run.count],
            shares: [&mut *upper, &mut *lower],
            out: |query| self.out(first + query),
        });
        let shares = [&*upper, if TILE_ROWS < run.count { &*lower } else { &[] }];
        for columns in 0..runs(dim) {
            let panels = panels_at(memory.values, columns, slots);
            multiply_rows(simd, units, shares, panels, run.count, memory.weighted);
            simd.run(AddSums {
                sums: memory.weighted,
                rows: run.count,
                column: columns * BLOCK_COLUMNS,
                out: |query| self.out(first + query),
            });
        }
    }

    fn finish(&self, memory: &Memory<'_>) {
        let at = self.queries.at;
        for token in 0..self.count {
            let (largest, total) = (memory.largest[token], memory.total[token]);
            let inverse = 1.0 / total;
            self.out(token).iter_mut().for_each(|out| *out *= inverse);
            let (row, head) = (at.row(self.rows.seq, self.rows.first + token), self.rows.head);
            // SAFETY: these queries of this head are one task's.
            let log_sum = unsafe { self.log_sums.part_mut(row, head..head + 1) };
            log_sum[0] = (largest + total.log2()) * std::f32::consts::LN_2;
        }
    }

    /// Some of the task's queries.
    fn query_run(&self, first: usize, count: usize) -> QueryRun<'_> {
        QueryRun { queries: self.queries, first: self.rows.first + first, count }
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn out(&self, token: usize) -> &mut [f32] {
        // SAFETY: these queries of this head are one task's, and each is asked for once at a time.
        unsafe { self.rows.write(self.out, token) }
    }
}

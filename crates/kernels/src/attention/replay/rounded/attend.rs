//! The chunk's attention: a task is some queries of one head, which meet all slots.

use half::bf16;
use terrace_device::SharedRows;

use super::add_sums::AddSums;
use super::pack::{self, inputs_numbers, packed_numbers, panels_at, runs, tiles_at};
use super::query_run::{QueryRun, Sight};
use super::query_task::{QueryTask, SlotBlock};
use super::scratch::Scratch;
use super::softmax::{NOTHING_SEEN, Softmax};
use super::{MET_ROWS_MOST, met_rows};
use crate::attention::replay::args::ReplayQueries;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::linear::packed::{PairSums, SUM_ROWS, Units, multiply_rows};
use crate::tiles::{BLOCK_COLUMNS, TILE_NUMBERS, TILE_ROWS};

pub(crate) fn attend(
    ctx: &CpuCtx,
    queries: &ReplayQueries<'_>,
    out: &SharedRows<'_, f32>,
    log_sums: &SharedRows<'_, f32>,
) {
    QueryTask::run_all(ctx, queries, &|task, scratch, units| {
        Task { task, out, log_sums }.run(scratch, units);
    });
}

struct Task<'a> {
    task: QueryTask<'a>,
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
        let QueryTask { simd, queries, rows, count } = self.task;
        let dim = queries.at.dim;
        let mut memory = Memory::of(scratch, count, dim);
        memory.largest.fill(NOTHING_SEEN);
        memory.total.fill(0.0);
        (0..count).for_each(|token| self.out(token).fill(0.0));
        pack::tiles(simd, count, |token| rows.read(queries.query, token), dim, memory.queries);
        for block in self.task.blocks() {
            pack::lanes(simd, block.count, |slot| block.key(slot), dim, memory.keys);
            pack::inputs(simd, block.count, |slot| block.value(slot), dim, memory.values);
            for run in self.task.runs() {
                self.meet(run, &block, &mut memory, units);
            }
        }
        self.finish(&memory);
    }

    /// Some queries and a block of slots.
    fn meet(
        &self,
        run: QueryRun<'_>,
        block: &SlotBlock<'_>,
        memory: &mut Memory<'_>,
        units: &mut Units,
    ) {
        let QueryTask { simd, queries, count, .. } = self.task;
        let (dim, positions) = (queries.at.dim, &block.positions);
        let mut sights = [Sight::Nothing; MET_ROWS_MOST / BLOCK_COLUMNS];
        let sights = &mut sights[..runs(block.count)];
        for (slot_run, sight) in sights.iter_mut().enumerate() {
            *sight = run.sight(positions.ends(slot_run));
        }
        let first = self.task.first_of(run);
        let tiles = tiles_at(memory.queries, first / SUM_ROWS, count, dim);
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
            scale: queries.scale * std::f32::consts::LOG2_E,
            largest: &mut memory.largest[first..first + run.count],
            total: &mut memory.total[first..first + run.count],
            shares: [&mut *upper, &mut *lower],
            out: |query| self.out(first + query),
        });
        let shares = [&*upper, if TILE_ROWS < run.count { &*lower } else { &[] }];
        for columns in 0..runs(dim) {
            let panels = panels_at(memory.values, columns, block.count);
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
        let QueryTask { queries, rows, count, .. } = self.task;
        for token in 0..count {
            let (largest, total) = (memory.largest[token], memory.total[token]);
            let inverse = 1.0 / total;
            self.out(token).iter_mut().for_each(|out| *out *= inverse);
            let (row, head) = (queries.at.row(rows.seq, rows.first + token), rows.head);
            // SAFETY: these queries of this head are one task's.
            let log_sum = unsafe { self.log_sums.part_mut(row, head..head + 1) };
            log_sum[0] = (largest + total.log2()) * std::f32::consts::LN_2;
        }
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn out(&self, token: usize) -> &mut [f32] {
        // SAFETY: these queries of this head are one task's, and each is asked for once at a time.
        unsafe { self.task.out(self.out, token) }
    }
}

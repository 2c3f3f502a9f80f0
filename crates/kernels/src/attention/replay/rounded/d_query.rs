//! The gradient of a chunk's queries: a task is some queries of one head, which meet all slots.

use half::bf16;
use terrace_device::{SharedRows, View};

use super::add_sums::AddSums;
use super::met_rows;
use super::pack::{self, inputs_numbers, packed_numbers, panels_at, runs, tiles_at};
use super::query_run::{QueryRun, Sight};
use super::query_task::{QueryTask, SlotBlock};
use super::score_gradients::{OfQueries, Products};
use super::scratch::Scratch;
use crate::attention::replay::args::{ReplayGradients, ReplayQueries};
use crate::attention::replay::d_query::dot;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::linear::packed::{PairSums, SUM_ROWS, Units, multiply_rows};
use crate::tiles::{BLOCK_COLUMNS, TILE_NUMBERS, TILE_ROWS};

pub(crate) fn d_query(ctx: &CpuCtx, args: &mut ReplayGradients<'_>) {
    let d_query = SharedRows::new(&mut args.d_query);
    let (queries, forward) = (&args.queries, [args.out, args.log_sums, args.d_out]);
    QueryTask::run_all(ctx, queries, &|task, scratch, units| {
        Task { task, forward, d_query: &d_query }.run(scratch, units);
    });
}

struct Task<'a> {
    task: QueryTask<'a>,
    /// What came out, the logarithms of its sums, and its gradient.
    forward: [View<'a>; 3],
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
        let QueryTask { simd, queries, rows, count } = self.task;
        let dim = queries.at.dim;
        let [out, log_sums, d_out] = self.forward;
        let mut memory = Memory::of(scratch, count, dim);
        for token in 0..count {
            let [out, d_out] = [out, d_out].map(|view| rows.read(view, token));
            let log_sum = rows.number(log_sums, token);
            memory.log_sums[token] = log_sum * std::f32::consts::LOG2_E;
            memory.means[token] = dot(out, d_out);
            self.d_query(token).fill(0.0);
        }
        for (view, out) in [(queries.query, &mut memory.queries), (d_out, &mut memory.d_out)] {
            pack::tiles(simd, count, |token| rows.read(view, token), dim, out);
        }
        for block in self.task.blocks() {
            pack::lanes(simd, block.count, |slot| block.key(slot), dim, memory.keys);
            pack::lanes(simd, block.count, |slot| block.value(slot), dim, memory.values);
            pack::inputs(simd, block.count, |slot| block.key(slot), dim, memory.key_inputs);
            for run in self.task.runs() {
                self.meet(run, &block, &mut memory, units);
            }
        }
    }

    /// Some queries and a block of slots.
    fn meet(
        &self,
        run: QueryRun<'_>,
        block: &SlotBlock<'_>,
        memory: &mut Memory<'_>,
        units: &mut Units,
    ) {
        let QueryTask { simd, queries: ReplayQueries { at, scale, .. }, count, .. } = self.task;
        let (dim, positions, slots) = (at.dim, &block.positions, block.count);
        let first = self.task.first_of(run);
        let [queries, d_out] = [&*memory.queries, &*memory.d_out]
            .map(|tiles| tiles_at(tiles, first / SUM_ROWS, count, dim));
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
                products: Products { scores, d_shares, scale: *scale },
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

    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn d_query(&self, token: usize) -> &mut [f32] {
        // SAFETY: these queries of this head are one task's, and each is asked for once at a time.
        unsafe { self.task.out(self.d_query, token) }
    }
}

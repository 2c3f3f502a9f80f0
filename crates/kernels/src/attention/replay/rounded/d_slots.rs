//! The gradients of keys and values in slots: a task is some slots of one kv head, which meet all
//! queries of the chunk and of the heads that share it, in order.

use std::ops::Range;

use half::bf16;
use terrace_device::{SharedRows, View};

use super::add_sums::AddSums;
use super::pack::{self, inputs_numbers, packed_numbers, panels_at, runs, tiles_at};
use super::query_lanes::QueryLanes;
use super::query_run::{QueryRun, Sight};
use super::score_gradients::{OfSlots, Products};
use super::scratch::Scratch;
use super::slot_positions::SlotPositions;
use super::{MET_ROWS_MOST, met_rows, own_rows};
use crate::attention::replay::args::{ReplayGradients, ReplayQueries};
use crate::attention::replay::d_query::dot;
use crate::attention::replay::head_rows::{HeadRows, of_slots};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::Simd;
use crate::linear::packed::{PairSums, SUM_ROWS, Units, multiply_rows, units};
use crate::tiles::{BLOCK_COLUMNS, TILE_NUMBERS, TILE_ROWS};

pub(crate) fn d_slots(ctx: &CpuCtx, args: &mut ReplayGradients<'_>) {
    let d_keys = SharedRows::new(&mut args.d_keys);
    let d_values = SharedRows::new(&mut args.d_values);
    let (queries, forward) = (&args.queries, [args.out, args.log_sums, args.d_out]);
    let (at, filled, own) = (queries.at, queries.slots.filled, own_rows(queries.at.dim));
    let blocks = filled.div_ceil(own);
    ctx.run_workers_with_scratch(at.seqs * at.kv_heads * blocks, &|scratch, tasks| {
        let mut units = units(ctx.simd);
        for task in tasks {
            let (row, start) = (task / blocks, task % blocks * own);
            let slots = start..filled.min(start + own);
            let positions =
                SlotPositions::of(&queries.slots.positions.row::<i32>(row)[slots.clone()]);
            let gradients = [&d_keys, &d_values];
            let simd = ctx.simd;
            let task = Task { simd, queries, forward, row, slots, positions, gradients };
            task.run(Scratch::of(scratch), &mut units);
        }
    });
}

struct Task<'a> {
    simd: Simd,
    queries: &'a ReplayQueries<'a>,
    /// What came out, the logarithms of its sums, and its gradient.
    forward: [View<'a>; 3],
    /// The kv head of a sequence.
    row: usize,
    slots: Range<usize>,
    positions: SlotPositions,
    /// Of keys and of values.
    gradients: [&'a SharedRows<'a, f32>; 2],
}

struct Memory<'a> {
    keys: &'a mut [bf16],
    values: &'a mut [bf16],
    queries: &'a mut [bf16],
    d_out: &'a mut [bf16],
    query_inputs: &'a mut [bf16],
    d_out_inputs: &'a mut [bf16],
    shares: &'a mut [bf16],
    d_scores: &'a mut [bf16],
    scores: &'a mut PairSums,
    d_shares: &'a mut PairSums,
    weighted: &'a mut PairSums,
}

impl<'a> Memory<'a> {
    fn of(mut scratch: Scratch<'a>, slots: usize, dim: usize) -> Self {
        let met = met_rows(dim);
        Memory {
            keys: scratch.bf16(packed_numbers(slots, dim)),
            values: scratch.bf16(packed_numbers(slots, dim)),
            queries: scratch.bf16(packed_numbers(met, dim)),
            d_out: scratch.bf16(packed_numbers(met, dim)),
            query_inputs: scratch.bf16(inputs_numbers(met, dim)),
            d_out_inputs: scratch.bf16(inputs_numbers(met, dim)),
            shares: scratch.bf16(2 * runs(met) * TILE_NUMBERS),
            d_scores: scratch.bf16(2 * runs(met) * TILE_NUMBERS),
            scores: scratch.one_sums(),
            d_shares: scratch.one_sums(),
            weighted: scratch.one_sums(),
        }
    }
}

impl Task<'_> {
    fn run(&self, scratch: Scratch<'_>, units: &mut Units) {
        let ReplayQueries { at, slots, .. } = *self.queries;
        let mut memory = Memory::of(scratch, self.slots.len(), at.dim);
        let views = [slots.keys, slots.values];
        for (view, out) in views.into_iter().zip([&mut memory.keys, &mut memory.values]) {
            let rows = of_slots(view, self.row, slots.filled);
            let x = |slot| &rows[(self.slots.start + slot) * at.dim..][..at.dim];
            pack::tiles(self.simd, self.slots.len(), x, at.dim, out);
        }
        let (seq, kv_head) = (self.row / at.kv_heads, self.row % at.kv_heads);
        let met = met_rows(at.dim);
        for head in kv_head * at.group_heads()..(kv_head + 1) * at.group_heads() {
            for first in (0..at.tokens).step_by(met) {
                let rows = HeadRows { at, seq, head, first };
                self.meet(rows, met.min(at.tokens - first), &mut memory, units);
            }
        }
    }

    /// All slots and a block of so many queries.
    fn meet(&self, rows: HeadRows, count: usize, memory: &mut Memory<'_>, units: &mut Units) {
        let all = QueryRun { queries: self.queries, first: rows.first, count };
        let nothing = |run| all.sight(self.positions.ends(run)) == Sight::Nothing;
        if self.positions.runs().all(nothing) {
            return;
        }
        let (simd, dim, query) = (self.simd, self.queries.at.dim, self.queries.query);
        let [out, log_sums, d_out] = self.forward;
        let query = |token| rows.read(query, token);
        let d_out = |token| rows.read(d_out, token);
        pack::lanes(simd, count, query, dim, memory.queries);
        pack::lanes(simd, count, d_out, dim, memory.d_out);
        pack::inputs(simd, count, query, dim, memory.query_inputs);
        pack::inputs(simd, count, d_out, dim, memory.d_out_inputs);
        let mut lanes = [QueryLanes::NONE; MET_ROWS_MOST / BLOCK_COLUMNS];
        for (n, lanes) in lanes[..runs(count)].iter_mut().enumerate() {
            let first = n * BLOCK_COLUMNS;
            let run = QueryRun {
                queries: self.queries,
                first: rows.first + first,
                count: BLOCK_COLUMNS.min(count - first),
            };
            *lanes = QueryLanes::of(run, |query| {
                let token = first + query;
                [rows.number(log_sums, token), dot(rows.read(out, token), d_out(token))]
            });
        }
        for slot_run in self.positions.runs() {
            self.meet_slots(slot_run, count, &lanes[..runs(count)], memory, units);
        }
    }

    /// Some slots and a block of so many queries.
    fn meet_slots(
        &self,
        slot_run: usize,
        count: usize,
        lanes: &[QueryLanes],
        memory: &mut Memory<'_>,
        units: &mut Units,
    ) {
        let (simd, dim, scale) = (self.simd, self.queries.at.dim, self.queries.scale);
        let first = slot_run * SUM_ROWS;
        let slots = SUM_ROWS.min(self.slots.len() - first);
        let [keys, values] = [&*memory.keys, &*memory.values]
            .map(|tiles| tiles_at(tiles, slot_run, self.slots.len(), dim));
        let ends = self.positions.ends(slot_run);
        if lanes.iter().all(|lanes| lanes.sight(ends) == Sight::Nothing) {
            return;
        }
        let tiles = lanes.len() * TILE_NUMBERS;
        let (upper_shares, lower_shares) = memory.shares[..2 * tiles].split_at_mut(tiles);
        let (upper_d_scores, lower_d_scores) = memory.d_scores[..2 * tiles].split_at_mut(tiles);
        for (n, lanes) in lanes.iter().enumerate() {
            let tile = n * TILE_NUMBERS..(n + 1) * TILE_NUMBERS;
            let shares = [&mut upper_shares[tile.clone()], &mut lower_shares[tile.clone()]];
            let d_scores = [&mut upper_d_scores[tile.clone()], &mut lower_d_scores[tile]];
            let sight = lanes.sight(ends);
            if sight == Sight::Nothing {
                shares.into_iter().chain(d_scores).for_each(|tile| tile.fill(bf16::ZERO));
                continue;
            }
            let queries = panels_at(memory.queries, n, dim);
            let d_out = panels_at(memory.d_out, n, dim);
            multiply_rows(simd, units, keys, queries, slots, memory.scores);
            multiply_rows(simd, units, values, d_out, slots, memory.d_shares);
            let (of_scores, of_shares) = (&*memory.scores, &*memory.d_shares);
            simd.run_panels(OfSlots {
                lanes,
                sight,
                positions: &self.positions.run(slot_run)[..slots],
                products: Products { scores: of_scores, d_shares: of_shares, scale },
                shares,
                d_scores,
            });
        }
        let is_more = TILE_ROWS < slots;
        let shares = [&*upper_shares, if is_more { &*lower_shares } else { &[] }];
        let d_scores = [&*upper_d_scores, if is_more { &*lower_d_scores } else { &[] }];
        let [d_keys, d_values] = self.gradients;
        for columns in 0..runs(dim) {
            let products = [
                (d_scores, &*memory.query_inputs, d_keys),
                (shares, &*memory.d_out_inputs, d_values),
            ];
            for (tiles, inputs, gradients) in products {
                let panels = panels_at(inputs, columns, count);
                multiply_rows(simd, units, tiles, panels, slots, memory.weighted);
                simd.run(AddSums {
                    sums: memory.weighted,
                    rows: slots,
                    column: columns * BLOCK_COLUMNS,
                    out: |slot| self.gradient(gradients, first + slot),
                });
            }
        }
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn gradient<'g>(&self, rows: &'g SharedRows<'_, f32>, slot: usize) -> &'g mut [f32] {
        let (dim, slot) = (self.queries.at.dim, self.slots.start + slot);
        // SAFETY: these slots are one task's, and each is asked for once at a time.
        unsafe { rows.part_mut(self.row, slot * dim..(slot + 1) * dim) }
    }
}

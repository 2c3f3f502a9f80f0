//! Some queries of one head, which meet the slots of its kv head block by block.

use terrace_device::SharedRows;

use super::query_run::{QueryRun, Sight};
use super::scratch::Scratch;
use super::slot_positions::SlotPositions;
use super::{met_rows, own_rows};
use crate::attention::replay::args::ReplayQueries;
use crate::attention::replay::head_rows::{HeadRows, of_slots};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::Simd;
use crate::linear::packed::{SUM_ROWS, Units, units};

#[derive(Clone, Copy)]
pub(super) struct QueryTask<'a> {
    pub(super) simd: Simd,
    pub(super) queries: &'a ReplayQueries<'a>,
    pub(super) rows: HeadRows,
    /// Queries.
    pub(super) count: usize,
}

/// Slots of which some query sees at least one.
pub(super) struct SlotBlock<'a> {
    pub(super) positions: SlotPositions,
    pub(super) count: usize,
    keys: &'a [f32],
    values: &'a [f32],
    dim: usize,
}

impl<'a> QueryTask<'a> {
    /// Calls `run` for all queries of a chunk, on all workers.
    pub(super) fn run_all(
        ctx: &CpuCtx,
        queries: &ReplayQueries<'_>,
        run: &(dyn Fn(QueryTask<'_>, Scratch<'_>, &mut Units) + Sync),
    ) {
        let (at, own) = (queries.at, own_rows(queries.at.dim));
        let tasks_of_head = at.tokens.div_ceil(own);
        ctx.run_workers_with_scratch(at.seqs * at.heads * tasks_of_head, &|scratch, tasks| {
            let mut units = units(ctx.simd);
            for task in tasks {
                let (head, first) = (task / tasks_of_head, task % tasks_of_head * own);
                let rows = HeadRows { at, seq: head / at.heads, head: head % at.heads, first };
                let count = own.min(at.tokens - first);
                let task = QueryTask { simd: ctx.simd, queries, rows, count };
                run(task, Scratch::of(scratch), &mut units);
            }
        });
    }

    /// Those blocks of slots that are not hidden from all queries.
    pub(super) fn blocks(self) -> impl Iterator<Item = SlotBlock<'a>> {
        let ReplayQueries { at, slots, .. } = *self.queries;
        let (row, met) = (self.rows.slot_row(), met_rows(at.dim));
        let [keys, values] = [slots.keys, slots.values].map(|it| of_slots(it, row, slots.filled));
        (0..slots.filled).step_by(met).filter_map(move |start| {
            let block = start..slots.filled.min(start + met);
            let positions = SlotPositions::of(&slots.positions.row::<i32>(row)[block.clone()]);
            let all = self.run(0, self.count);
            if positions.runs().all(|run| all.sight(positions.ends(run)) == Sight::Nothing) {
                return None;
            }
            let numbers = block.start * at.dim..block.end * at.dim;
            let (keys, values) = (&keys[numbers.clone()], &values[numbers]);
            Some(SlotBlock { positions, count: block.len(), keys, values, dim: at.dim })
        })
    }

    /// All queries, 32 at a time.
    pub(super) fn runs(self) -> impl Iterator<Item = QueryRun<'a>> {
        let starts = (0..self.count).step_by(SUM_ROWS);
        starts.map(move |first| self.run(first, SUM_ROWS.min(self.count - first)))
    }

    fn run(&self, first: usize, count: usize) -> QueryRun<'a> {
        QueryRun { queries: self.queries, first: self.rows.first + first, count }
    }

    /// The task's query that is the run's first.
    pub(super) fn first_of(&self, run: QueryRun<'_>) -> usize {
        run.first - self.rows.first
    }

    /// A query's numbers in an output.
    ///
    /// # Safety
    /// Nobody else holds them.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn out<'o>(
        &self,
        out: &'o SharedRows<'_, f32>,
        query: usize,
    ) -> &'o mut [f32] {
        // SAFETY: the caller's contract.
        unsafe { self.rows.write(out, query) }
    }
}

impl<'a> SlotBlock<'a> {
    pub(super) fn key(&self, slot: usize) -> &'a [f32] {
        &self.keys[slot * self.dim..(slot + 1) * self.dim]
    }

    pub(super) fn value(&self, slot: usize) -> &'a [f32] {
        &self.values[slot * self.dim..(slot + 1) * self.dim]
    }
}

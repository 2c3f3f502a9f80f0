//! Split-KV: keys in splits of fixed length.
//!
//! A query's sums over a split are finished before those of the next are added to them, whoever
//! computes them. So when there are few sequences, the splits of a long one are shared out among
//! threads, and every bit of the result is that of one thread that takes them in turn.

use std::ops::Range;

use terrace_device::{SharedRows, ViewMut};

use super::layer::Layer;
use super::partial_sums::PartialSums;
use super::splits::splits;
use super::tile::Tile;
use crate::attention::blocks::OutRows;
use crate::cpu::cpu_ctx::OP_FLOATS;
use crate::cpu::lanes::{Kernel, Lanes, Simd};

/// Tiles in fewer tasks than this for each thread would leave threads without work.
const TASKS_PER_THREAD: usize = 4;

/// How a layer's tiles are cut: each into so many splits, of which the last may be empty.
pub(super) struct SplitKv {
    splits: usize,
    /// Tokens of a tile.
    tokens: usize,
}

impl SplitKv {
    /// `None` when whole tiles do as well.
    pub(super) fn new(layer: &Layer<'_>) -> Option<Self> {
        let (ctx, tasks) = (layer.ctx, layer.tasks());
        if TASKS_PER_THREAD * ctx.threads() <= tasks || ctx.threads() == 1 {
            return None;
        }
        let mut cuts = SplitKv { splits: 1, tokens: 0 };
        for task in (0..tasks).step_by(layer.kv_heads) {
            let (tile, of_prompt) = layer.tile(task, &mut []);
            if !of_prompt {
                cuts.splits = cuts.splits.max(splits(tile.seen()).count());
                cuts.tokens = cuts.tokens.max(tile.tokens.len());
            }
        }
        let fits = tasks * cuts.splits * cuts.split_floats(layer) <= OP_FLOATS;
        (1 < cuts.splits && fits && !matches!(ctx.simd, Simd::Reference)).then_some(cuts)
    }

    fn split_floats(&self, layer: &Layer<'_>) -> usize {
        self.tokens * layer.cuts.group * (layer.value_dim + 2)
    }

    /// All splits of all tiles, and then each tile's together.
    pub(super) fn attend(&self, layer: &Layer<'_>) {
        let (tasks, queries) = (layer.tasks(), self.tokens * layer.cuts.group);
        let slices = tasks * self.splits;
        layer.ctx.with_op_memory(|memory| {
            let (states, outs) = memory.split_at_mut(2 * slices * queries);
            let outs = &mut outs[..slices * queries * layer.value_dim];
            let mut states = ViewMut::of(states, [slices, 2 * queries]);
            let mut outs =
                ViewMut::of(outs, [slices * self.tokens, layer.cuts.group * layer.value_dim]);
            let memory = SplitMemory {
                states: &SharedRows::new(&mut states),
                outs: &SharedRows::new(&mut outs),
                tokens: self.tokens,
                group: layer.cuts.group,
                value_dim: layer.value_dim,
            };
            layer.ctx.run_with_scratch(slices, &|scratch, slice| {
                let (tile, of_prompt) = layer.tile(slice / self.splits, scratch);
                let split = slice % self.splits;
                if of_prompt {
                    if split == 0 {
                        layer.attend(tile, of_prompt);
                    }
                } else if let Some(keys) = splits(tile.seen()).nth(split) {
                    // SAFETY: a slice is one task's.
                    let sums = unsafe { memory.sums(slice, tile.queries()) };
                    layer.ctx.simd.run(Tile { split: Some((keys, sums)), ..tile });
                }
            });
            let task_floats = self.splits * queries * layer.value_dim;
            layer.ctx.for_rows(tasks, task_floats, &|task| {
                let (tile, of_prompt) = layer.tile(task, &mut []);
                if !of_prompt {
                    let slices = task * self.splits..(task + 1) * self.splits;
                    layer.ctx.simd.run(MergeSplits { tile, memory: &memory, slices });
                }
            });
        });
    }
}

/// Memory for the sums of splits.
struct SplitMemory<'a> {
    /// `[slices, 2, queries]`
    states: &'a SharedRows<'a, f32>,
    /// `[slices, tokens, group, value_dim]`
    outs: &'a SharedRows<'a, f32>,
    tokens: usize,
    group: usize,
    value_dim: usize,
}

impl SplitMemory<'_> {
    /// # Safety
    /// Nobody else holds those of this slice.
    unsafe fn sums(&self, slice: usize, queries: usize) -> PartialSums<'_> {
        // SAFETY: the caller's contract.
        let state = unsafe { self.states.row_mut(slice) };
        let out = OutRows::new(self.outs, slice * self.tokens, 0..self.group, self.value_dim);
        PartialSums::new(&mut state[..2 * queries], out)
    }
}

/// All splits of a tile.
struct MergeSplits<'a> {
    tile: Tile<'a>,
    memory: &'a SplitMemory<'a>,
    slices: Range<usize>,
}

impl Kernel for MergeSplits<'_> {
    fn reference(self) {
        unreachable!("only vectors take splits");
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let (tile, queries) = (&self.tile, self.tile.queries());
        let mut all: Option<PartialSums<'_>> = None;
        for (slice, _) in self.slices.zip(splits(tile.seen())) {
            // SAFETY: a tile's slices are this task's.
            let sums = unsafe { self.memory.sums(slice, queries) };
            match &mut all {
                None => all = Some(sums),
                Some(all) => all.add(lanes, &sums),
            }
        }
        let mut all = all.expect("a query sees itself");
        all.finish(lanes);
        for query in 0..queries {
            // SAFETY: one query at a time, and the two are apart.
            let (means, out) = unsafe { (all.out.get(query), tile.out.get(query)) };
            out.copy_from_slice(means);
        }
    }
}

//! Keys in stretches of fixed length.
//!
//! A query's sums over a stretch are finished before those of the next are added to them, whoever
//! computes them. So when there are few sequences, the stretches of a long one are shared out among
//! threads, and every bit of the result is that of one thread that takes them in turn.

use std::ops::Range;

use terrace_device::{SharedRows, ViewMut};

use super::simd::Sums;
use super::{Layer, Tile};
use crate::attention::blocks::{BLOCK_KEYS, OutRows};
use crate::cpu::cpu_ctx::OP_FLOATS;
use crate::cpu::lanes::{Kernel, Lanes, Simd};

/// Some microseconds of work for one kv head.
pub(super) const STRETCH_KEYS: usize = 4 * BLOCK_KEYS;

/// A tile's keys, cut where stretches end.
pub(super) fn stretches(seen: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let first = seen.start / STRETCH_KEYS * STRETCH_KEYS;
    (first..seen.end).step_by(STRETCH_KEYS).map(move |start| {
        let inside = |position: usize| position.clamp(seen.start, seen.end);
        inside(start)..inside(start + STRETCH_KEYS)
    })
}

/// Tiles in fewer tasks than this for each thread would leave threads without work.
const TASKS_PER_THREAD: usize = 4;

/// How a layer's tiles are cut: each into so many stretches, of which the last may be empty.
pub(super) struct StretchCuts {
    stretches: usize,
    /// Tokens of a tile.
    tokens: usize,
}

impl StretchCuts {
    /// `None` when whole tiles do as well.
    pub(super) fn new(layer: &Layer<'_>) -> Option<Self> {
        let (ctx, tasks) = (layer.ctx, layer.tasks());
        if TASKS_PER_THREAD * ctx.threads() <= tasks || ctx.threads() == 1 {
            return None;
        }
        let mut cuts = StretchCuts { stretches: 1, tokens: 0 };
        for task in (0..tasks).step_by(layer.kv_heads) {
            let (tile, of_prompt) = layer.tile(task, &mut []);
            if !of_prompt {
                cuts.stretches = cuts.stretches.max(stretches(tile.seen()).count());
                cuts.tokens = cuts.tokens.max(tile.tokens.len());
            }
        }
        let fits = tasks * cuts.stretches * cuts.place_floats(layer) <= OP_FLOATS;
        (1 < cuts.stretches && fits && !matches!(ctx.simd, Simd::Reference)).then_some(cuts)
    }

    fn place_floats(&self, layer: &Layer<'_>) -> usize {
        self.tokens * layer.cuts.group * (layer.value_dim + 2)
    }

    /// All stretches of all tiles, and then each tile's together.
    pub(super) fn attend(&self, layer: &Layer<'_>) {
        let (tasks, queries) = (layer.tasks(), self.tokens * layer.cuts.group);
        let places = tasks * self.stretches;
        layer.ctx.with_op_memory(|memory| {
            let (states, outs) = memory.split_at_mut(2 * places * queries);
            let outs = &mut outs[..places * queries * layer.value_dim];
            let mut states = ViewMut::of(states, [places, 2 * queries]);
            let mut outs =
                ViewMut::of(outs, [places * self.tokens, layer.cuts.group * layer.value_dim]);
            let memory = Places {
                states: &SharedRows::new(&mut states),
                outs: &SharedRows::new(&mut outs),
                tokens: self.tokens,
                group: layer.cuts.group,
                value_dim: layer.value_dim,
            };
            layer.ctx.run_with_scratch(places, &|scratch, place| {
                let (tile, of_prompt) = layer.tile(place / self.stretches, scratch);
                let stretch = place % self.stretches;
                if of_prompt {
                    if stretch == 0 {
                        layer.attend(tile, of_prompt);
                    }
                } else if let Some(keys) = stretches(tile.seen()).nth(stretch) {
                    // SAFETY: a place is one task's.
                    let sums = unsafe { memory.sums(place, tile.queries()) };
                    layer.ctx.simd.run(Tile { stretch: Some((keys, sums)), ..tile });
                }
            });
            let task_floats = self.stretches * queries * layer.value_dim;
            layer.ctx.for_rows(tasks, task_floats, &|task| {
                let (tile, of_prompt) = layer.tile(task, &mut []);
                if !of_prompt {
                    let places = task * self.stretches..(task + 1) * self.stretches;
                    layer.ctx.simd.run(Together { tile, memory: &memory, places });
                }
            });
        });
    }
}

/// Memory for the sums of stretches.
struct Places<'a> {
    /// `[places, 2, queries]`
    states: &'a SharedRows<'a, f32>,
    /// `[places, tokens, group, value_dim]`
    outs: &'a SharedRows<'a, f32>,
    tokens: usize,
    group: usize,
    value_dim: usize,
}

impl Places<'_> {
    /// # Safety
    /// Nobody else holds those of this place.
    unsafe fn sums(&self, place: usize, queries: usize) -> Sums<'_> {
        // SAFETY: the caller's contract.
        let state = unsafe { self.states.row_mut(place) };
        let out = OutRows::new(self.outs, place * self.tokens, 0..self.group, self.value_dim);
        Sums::new(&mut state[..2 * queries], out)
    }
}

/// All stretches of a tile.
struct Together<'a> {
    tile: Tile<'a>,
    memory: &'a Places<'a>,
    places: Range<usize>,
}

impl Kernel for Together<'_> {
    fn reference(self) {
        unreachable!("only vectors take stretches");
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let (tile, queries) = (&self.tile, self.tile.queries());
        let mut all: Option<Sums<'_>> = None;
        for (place, _) in self.places.zip(stretches(tile.seen())) {
            // SAFETY: a tile's places are this task's.
            let sums = unsafe { self.memory.sums(place, queries) };
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

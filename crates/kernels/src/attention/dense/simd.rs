//! A tile of queries over vectors: split by split, and in each block by block, as
//! [`attention`](crate::attention::blocks) says.
//!
//! A query touches no key that it does not see.

use std::ops::Range;

use terrace_device::{SharedRows, ViewMut};

use super::partial_sums::PartialSums;
use super::reference;
use super::splits::splits;
use super::tile::Tile;
use crate::attention::blocks::{
    BLOCK_KEYS, BlockRows, DIRECT_QUERIES, OutRows, RowType, ScoreRows, Weighing, add_weighted,
    carry_on, score,
};
use crate::cpu::lanes::{Kernel, Lanes};

impl Kernel for Tile<'_> {
    fn reference(self) {
        for query in 0..self.queries() {
            // SAFETY: one query at a time.
            let out = unsafe { self.out.get(query) };
            let key = |j, i| self.kv.key_element(j, i);
            let value = |j, i| self.kv.value_element(j, i);
            reference::attend(self.q.get(query), self.scale, self.visible(query), key, value, out);
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        attend(lanes, self);
    }
}

/// All keys of a tile, or one split of them.
#[inline(always)]
pub(super) fn attend<L: Lanes>(lanes: L, mut tile: Tile<'_>) {
    let memory = std::mem::take(&mut tile.scratch);
    let (queries, value_dim) = (tile.queries(), tile.kv.value_dim());
    let (own_state, memory) = memory.split_at_mut(2 * queries);
    let (next_state, memory) = memory.split_at_mut(2 * queries);
    let (next_out, memory) = memory.split_at_mut(queries * value_dim);
    let mut next_out = ViewMut::of(next_out, [tile.tokens.len(), tile.group * value_dim]);
    let next_out = SharedRows::new(&mut next_out);
    let next_out = OutRows::new(&next_out, 0, 0..tile.group, value_dim);
    let mut next = PartialSums::new(next_state, next_out);
    let mut work = Work::divide(memory, &tile);
    let is_split = tile.split.is_some();
    let (keys, mut all) = match tile.split.take() {
        Some(split) => split,
        None => (tile.seen(), PartialSums::new(own_state, tile.out)),
    };
    for (i, keys) in splits(keys).enumerate() {
        let sums = if i == 0 { &mut all } else { &mut next };
        work.attend_split(lanes, &tile, keys, sums);
        if 0 < i {
            all.add(lanes, &next);
        }
    }
    if !is_split {
        all.finish(lanes);
    }
}

/// Visible positions inside a block, counted from its start.
pub(super) fn keys_in(block: usize, visible: Range<usize>) -> Range<usize> {
    let inside = |position: usize| position.clamp(block, block + BLOCK_KEYS) - block;
    inside(visible.start)..inside(visible.end)
}

/// Memory for a split, divided up.
struct Work<'a> {
    /// `[BLOCK_KEYS, key_dim]` and `[BLOCK_KEYS, value_dim]`: a block as f32.
    wide_keys: &'a mut [f32],
    wide_values: &'a mut [f32],
    /// `[queries, BLOCK_KEYS]`: scores, then weights.
    scores: &'a mut [f32],
    /// `[queries]`: what the latest block scales the earlier ones by.
    shrink: &'a mut [f32],
}

/// Numbers that a tile of `queries` needs.
pub(super) const fn work_floats(queries: usize, key_dim: usize, value_dim: usize) -> usize {
    BLOCK_KEYS * (key_dim + value_dim + queries) + queries * (value_dim + 5)
}

impl<'a> Work<'a> {
    fn divide(memory: &'a mut [f32], tile: &Tile<'_>) -> Self {
        let queries = tile.queries();
        let (wide_keys, memory) = memory.split_at_mut(BLOCK_KEYS * tile.kv.key_dim());
        let (wide_values, memory) = memory.split_at_mut(BLOCK_KEYS * tile.kv.value_dim());
        let (scores, memory) = memory.split_at_mut(BLOCK_KEYS * queries);
        Work { wide_keys, wide_values, scores, shrink: &mut memory[..queries] }
    }

    /// Sums over the keys of one split.
    #[inline(always)]
    fn attend_split<L: Lanes>(
        &mut self,
        lanes: L,
        tile: &Tile<'_>,
        split: Range<usize>,
        sums: &mut PartialSums<'_>,
    ) {
        sums.clear();
        let (queries, seen) = (tile.queries(), tile.seen());
        let first_block = split.start / BLOCK_KEYS * BLOCK_KEYS;
        let positions = |block: usize| {
            let inside = |position: usize| position.clamp(seen.start, seen.end);
            inside(block)..inside(block + BLOCK_KEYS)
        };
        let nothing = [0, 0].map(|dim| BlockRows::new(RowType::F32, dim));
        let few = |kind: &RowType| *kind == RowType::F32 || queries <= DIRECT_QUERIES;
        // A block's rows where they lie, and those of the next one, in turn.
        let mut direct =
            tile.kv.kind().filter(few).map(|kind| [tile.kv.room(kind), tile.kv.room(kind)]);
        if let Some([first, _]) = &mut direct {
            tile.kv.find(&positions(first_block), first);
        }
        for (turn, block) in (first_block..split.end).step_by(BLOCK_KEYS).enumerate() {
            let (positions, next) = (positions(block), positions(block + BLOCK_KEYS));
            let skipped = positions.start - block;
            // The next block arrives while this one is computed with.
            let wide_rows;
            let (rows, ahead) = match &mut direct {
                Some([even, odd]) => {
                    let (rows, ahead) = if turn % 2 == 0 { (even, odd) } else { (odd, even) };
                    tile.kv.find(&next, ahead);
                    (&*rows, &*ahead)
                }
                None => {
                    tile.kv.prefetch_keys(lanes, next.clone());
                    tile.kv.prefetch_values(lanes, next);
                    let (keys, values) = (&mut *self.wide_keys, &mut *self.wide_values);
                    tile.kv.widen_keys(lanes, positions.clone(), keys);
                    tile.kv.widen_values(lanes, positions, values);
                    let keys = BlockRows::of_wide(keys, tile.kv.key_dim());
                    wide_rows = [keys, BlockRows::of_wide(values, tile.kv.value_dim())];
                    (&wide_rows, &nothing)
                }
            };
            let mut block_work =
                BlockWork { scores: &mut *self.scores, shrink: &mut *self.shrink, sums };
            let mut query = 0;
            while query < queries {
                let visible = keys_in(block, tile.visible(query));
                let alike = |&other: &usize| keys_in(block, tile.visible(other)) == visible;
                let run = query..query + (query..queries).take_while(alike).count();
                query = run.end;
                if !visible.is_empty() {
                    block_work.attend(lanes, tile, run, [rows, ahead], skipped, visible);
                }
            }
        }
    }
}

/// What a block is computed with.
struct BlockWork<'w, 's, 'a> {
    scores: &'w mut [f32],
    shrink: &'w mut [f32],
    sums: &'s mut PartialSums<'a>,
}

impl BlockWork<'_, '_, '_> {
    /// Takes a run of queries over the keys of a block that each of them sees. The rows, keys and
    /// values, are those of the block without the first `skipped`, and those of the next one.
    #[inline(always)]
    fn attend<L: Lanes>(
        &mut self,
        lanes: L,
        tile: &Tile<'_>,
        run: Range<usize>,
        [[keys, values], [keys_ahead, values_ahead]]: [&[BlockRows<'_>; 2]; 2],
        skipped: usize,
        visible: Range<usize>,
    ) {
        let rows = visible.start - skipped..visible.end - skipped;
        let mut scores =
            ScoreRows { numbers: &mut *self.scores, stride: BLOCK_KEYS, start: skipped };
        score(lanes, &tile.q, run.clone(), [keys, keys_ahead], rows.clone(), &mut scores);
        for query in run.clone() {
            let scores = &mut scores.numbers[query * BLOCK_KEYS..(query + 1) * BLOCK_KEYS];
            scores[..visible.start].fill(f32::NEG_INFINITY);
            scores[visible.end..].fill(f32::NEG_INFINITY);
            let state = (&mut self.sums.largest[query], &mut self.sums.total[query]);
            self.shrink[query] = carry_on(lanes, scores, tile.scale, state);
        }
        let weighing = Weighing {
            out: self.sums.out,
            rows: values,
            ahead: values_ahead,
            keys: rows,
            weights: &scores,
            shrink: self.shrink,
        };
        // SAFETY: these queries are this task's, and no slice of their results is alive.
        unsafe { add_weighted(lanes, run, &weighing) };
    }
}

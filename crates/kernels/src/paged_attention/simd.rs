//! A tile of queries over vectors: block by block, as [`attention`](crate::attention) says.
//!
//! A query touches no key that it does not see.

use std::ops::Range;

use super::Tile;
use crate::attention::{
    BLOCK_KEYS, BlockRows, DIRECT_QUERIES, NOTHING_SEEN, RowKind, ScoreRows, Weighing,
    add_weighted, carry_on, score,
};
use crate::lanes::Lanes;

#[inline(always)]
pub(super) fn attend<L: Lanes>(lanes: L, mut tile: Tile<'_>) {
    let memory = std::mem::take(&mut tile.scratch);
    let (mut work, wide) = Work::divide(memory, &tile);
    let queries = tile.queries();
    work.largest.fill(NOTHING_SEEN);
    work.total.fill(0.0);
    for query in 0..queries {
        // SAFETY: one query at a time.
        unsafe { tile.out.get(query) }.fill(0.0);
    }
    let seen = tile.visible(0).start..tile.visible(queries - 1).end;
    let first_block = seen.start / BLOCK_KEYS * BLOCK_KEYS;
    let positions = |block: usize| {
        let inside = |position: usize| position.clamp(seen.start, seen.end);
        inside(block)..inside(block + BLOCK_KEYS)
    };
    let rows_of = |kind, positions: Range<usize>| {
        [tile.kv.key_rows(kind, positions.clone()), tile.kv.value_rows(kind, positions)]
    };
    let nothing = [0, 0].map(|dim| BlockRows::new(RowKind::F32, dim));
    let mut direct = tile
        .kv
        .kind()
        .filter(|&kind| kind == RowKind::F32 || queries <= DIRECT_QUERIES)
        .map(|kind| (kind, rows_of(kind, positions(first_block))));
    for block in (first_block..seen.end).step_by(BLOCK_KEYS) {
        let (positions, next) = (positions(block), positions(block + BLOCK_KEYS));
        let skipped = positions.start - block;
        // The next block arrives while this one is computed with.
        let (rows, ahead) = match &mut direct {
            Some((kind, ahead)) => (std::mem::replace(ahead, rows_of(*kind, next)), &*ahead),
            None => {
                tile.kv.prefetch_keys(lanes, next.clone());
                tile.kv.prefetch_values(lanes, next);
                tile.kv.widen_keys(lanes, positions.clone(), wide.keys);
                tile.kv.widen_values(lanes, positions, wide.values);
                let keys = BlockRows::of_wide(wide.keys, tile.kv.key_dim());
                ([keys, BlockRows::of_wide(wide.values, tile.kv.value_dim())], &nothing)
            }
        };
        let mut query = 0;
        while query < queries {
            let visible = keys_in(block, tile.visible(query));
            let alike = |&other: &usize| keys_in(block, tile.visible(other)) == visible;
            let run = query..query + (query..queries).take_while(alike).count();
            query = run.end;
            if !visible.is_empty() {
                work.attend(lanes, &tile, run, [&rows, ahead], skipped, visible);
            }
        }
    }
    for query in 0..queries {
        let total = lanes.splat(work.total[query]);
        // SAFETY: one query at a time.
        for out in unsafe { tile.out.get(query) }.chunks_mut(L::COUNT) {
            lanes.write(lanes.div(lanes.read(out), total), out);
        }
    }
}

/// Visible positions inside a block, counted from its start.
pub(super) fn keys_in(block: usize, visible: Range<usize>) -> Range<usize> {
    let inside = |position: usize| position.clamp(block, block + BLOCK_KEYS) - block;
    inside(visible.start)..inside(visible.end)
}

/// Memory for a block's keys and values as f32.
struct Wide<'a> {
    /// `[BLOCK_KEYS, key_dim]`
    keys: &'a mut [f32],
    /// `[BLOCK_KEYS, value_dim]`
    values: &'a mut [f32],
}

/// The rest of the worker's memory, divided up.
struct Work<'a> {
    /// `[queries, BLOCK_KEYS]`: scores, then weights.
    scores: &'a mut [f32],
    /// `[queries]`: largest score so far, sum of weights, and what the latest block scales the
    /// earlier ones by.
    largest: &'a mut [f32],
    total: &'a mut [f32],
    shrink: &'a mut [f32],
}

/// Numbers that a tile of `queries` needs.
pub(super) const fn work_floats(queries: usize, key_dim: usize, value_dim: usize) -> usize {
    BLOCK_KEYS * (key_dim + value_dim + queries) + 3 * queries
}

impl<'a> Work<'a> {
    fn divide(memory: &'a mut [f32], tile: &Tile<'_>) -> (Self, Wide<'a>) {
        let queries = tile.queries();
        let (keys, memory) = memory.split_at_mut(BLOCK_KEYS * tile.kv.key_dim());
        let (values, memory) = memory.split_at_mut(BLOCK_KEYS * tile.kv.value_dim());
        let (scores, memory) = memory.split_at_mut(BLOCK_KEYS * queries);
        let (largest, memory) = memory.split_at_mut(queries);
        let (total, memory) = memory.split_at_mut(queries);
        let work = Work { scores, largest, total, shrink: &mut memory[..queries] };
        (work, Wide { keys, values })
    }

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
            let state = (&mut self.largest[query], &mut self.total[query]);
            self.shrink[query] = carry_on(lanes, scores, tile.scale, state);
        }
        let weighing = Weighing {
            out: tile.out,
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

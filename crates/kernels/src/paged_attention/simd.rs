//! A tile of queries over vectors.
//!
//! Keys come in blocks of [`BLOCK_KEYS`] positions, always starting at a multiple of it. For each
//! block: widen its keys and values, score them, carry the softmax on, add the weighted values.
//! Whatever a query sums, it sums in an order given by key positions alone, and it touches no key
//! that it does not see.

use std::ops::Range;

use super::Tile;
use super::softmax::carry_on;
use super::weigh::add_weighted;
use crate::lanes::Lanes;
use crate::project::products::products;

/// 64 keys and values of 64 numbers fill two thirds of a first-level cache of 48 KiB.
pub(super) const BLOCK_KEYS: usize = 64;

#[inline(always)]
pub(super) fn attend<L: Lanes>(lanes: L, mut tile: Tile<'_>) {
    let memory = std::mem::take(&mut tile.scratch);
    let mut work = Work::divide(memory, &tile);
    let queries = tile.queries();
    work.largest.fill(f32::NEG_INFINITY);
    work.total.fill(0.0);
    for query in 0..queries {
        // SAFETY: one query at a time.
        unsafe { tile.out(query) }.fill(0.0);
    }
    let seen = tile.visible(0).start..tile.visible(queries - 1).end;
    let first_block = seen.start / BLOCK_KEYS * BLOCK_KEYS;
    for block in (first_block..seen.end).step_by(BLOCK_KEYS) {
        work.widen(lanes, &tile, block, seen.start.max(block)..seen.end.min(block + BLOCK_KEYS));
        let mut query = 0;
        while query < queries {
            let keys = keys_in(block, tile.visible(query));
            let alike = |&other: &usize| keys_in(block, tile.visible(other)) == keys;
            let run = query..query + (query..queries).take_while(alike).count();
            query = run.end;
            if !keys.is_empty() {
                work.attend(lanes, &tile, run, keys);
            }
        }
    }
    for query in 0..queries {
        let total = lanes.splat(work.total[query]);
        // SAFETY: one query at a time.
        for out in unsafe { tile.out(query) }.chunks_mut(L::COUNT) {
            lanes.write(lanes.div(lanes.read(out), total), out);
        }
    }
}

/// Visible positions inside a block, counted from its start.
pub(super) fn keys_in(block: usize, visible: Range<usize>) -> Range<usize> {
    let inside = |position: usize| position.clamp(block, block + BLOCK_KEYS) - block;
    inside(visible.start)..inside(visible.end)
}

/// The worker's memory, divided up.
struct Work<'a> {
    /// `[BLOCK_KEYS, key_dim]`
    keys: &'a mut [f32],
    /// `[BLOCK_KEYS, value_dim]`
    values: &'a mut [f32],
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
    fn divide(memory: &'a mut [f32], tile: &Tile<'_>) -> Self {
        let queries = tile.queries();
        let (keys, memory) = memory.split_at_mut(BLOCK_KEYS * tile.kv.key_dim());
        let (values, memory) = memory.split_at_mut(BLOCK_KEYS * tile.kv.value_dim());
        let (scores, memory) = memory.split_at_mut(BLOCK_KEYS * queries);
        let (largest, memory) = memory.split_at_mut(queries);
        let (total, memory) = memory.split_at_mut(queries);
        Work { keys, values, scores, largest, total, shrink: &mut memory[..queries] }
    }

    /// Fetches the keys and values of `positions`, which lie in `block`.
    #[inline(always)]
    fn widen<L: Lanes>(
        &mut self,
        lanes: L,
        tile: &Tile<'_>,
        block: usize,
        positions: Range<usize>,
    ) {
        let skipped = positions.start - block;
        let keys = &mut self.keys[skipped * tile.kv.key_dim()..];
        tile.kv.widen_keys(lanes, positions.clone(), keys);
        // The next block arrives while this one is computed with.
        let next = positions.end..positions.end + BLOCK_KEYS;
        tile.kv.prefetch_keys(lanes, next.clone());
        let values = &mut self.values[skipped * tile.kv.value_dim()..];
        tile.kv.widen_values(lanes, positions, values);
        tile.kv.prefetch_values(lanes, next);
    }

    /// Takes a run of queries over the keys of a block that each of them sees.
    #[inline(always)]
    fn attend<L: Lanes>(
        &mut self,
        lanes: L,
        tile: &Tile<'_>,
        run: Range<usize>,
        keys: Range<usize>,
    ) {
        let [key_dim, value_dim] = [tile.kv.key_dim(), tile.kv.value_dim()];
        let (scores, start) = (&mut *self.scores, keys.start);
        let seen = &self.keys[keys.start * key_dim..keys.end * key_dim];
        let q = |i| tile.q(run.start + i);
        products(lanes, run.len(), q, seen, key_dim, |products| {
            let row = (run.start + products.row) * BLOCK_KEYS;
            products.write(&mut scores[row + start..row + BLOCK_KEYS]);
        });
        for query in run.clone() {
            let row = query * BLOCK_KEYS..(query + 1) * BLOCK_KEYS;
            let state = (&mut self.largest[query], &mut self.total[query]);
            self.shrink[query] = carry_on(lanes, &mut scores[row], &keys, tile.scale, state);
        }
        let values = &self.values[keys.start * value_dim..keys.end * value_dim];
        add_weighted(lanes, tile, run, keys, scores, self.shrink, values);
    }
}

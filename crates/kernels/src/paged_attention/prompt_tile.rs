//! A tile of a prompt's queries on the matrix units.
//!
//! Queries, keys, values and the weights of values are rounded to bf16; scores, sums and the
//! softmax are f32. Keys come in the blocks of [`simd`](super::simd), so here too a query's result
//! depends on key positions alone: keys that it does not see have weight 0, and adding nothing
//! changes nothing.

use std::ops::Range;

use half::bf16;

use super::Tile;
use super::simd::{BLOCK_KEYS, keys_in};
use super::softmax::carry_on;
use crate::lanes::{Lanes, StripKernel, StripLanes, Tiles};
use crate::strips::{
    BLOCK_COLUMNS, STRIP_ROWS, TILE_NUMBERS, TILE_ROWS, narrow, tile_row, tiles_numbers,
};

/// Tiles of scores of sixteen queries.
const SCORE_TILES: usize = BLOCK_KEYS / STRIP_ROWS;
/// Tiles of weights of sixteen queries.
const WEIGHT_TILES: usize = BLOCK_KEYS / BLOCK_COLUMNS;

/// Queries of a tile: fetching and turning a block of keys costs as much as attention of thirty.
pub(super) const PROMPT_TILE_QUERIES: usize = 192;

pub(super) struct PromptTile<'a> {
    pub(super) tile: Tile<'a>,
    pub(super) tiles: Tiles,
}

/// Numbers of f32 that a tile of `queries` needs.
pub(super) const fn work_floats(queries: usize, key_dim: usize, value_dim: usize) -> usize {
    let (queries, dim) = (queries.next_multiple_of(TILE_ROWS), key_dim.next_multiple_of(32));
    let sums = value_dim.next_multiple_of(STRIP_ROWS);
    queries * (dim / 2 + sums + 2)
        + BLOCK_KEYS * (dim / 2 + sums / 2 + key_dim + value_dim)
        + TILE_ROWS * (BLOCK_KEYS + BLOCK_KEYS / 2)
}

impl StripKernel for PromptTile<'_> {
    type Output = ();

    fn reference(self) {
        unreachable!("without vectors there are no matrix units");
    }

    #[inline(always)]
    fn simd<S: StripLanes>(mut self, lanes: S) {
        let memory = std::mem::take(&mut self.tile.scratch);
        let (tile, base) = (&self.tile, lanes.floats());
        let mut work = Work::divide(memory, tile);
        let queries = tile.queries();
        work.pack_queries(lanes, tile);
        work.sums.fill(0.0);
        work.largest.fill(f32::NEG_INFINITY);
        work.total.fill(0.0);
        let seen = tile.visible(0).start..tile.visible(queries - 1).end;
        let first_block = seen.start / BLOCK_KEYS * BLOCK_KEYS;
        for block in (first_block..seen.end).step_by(BLOCK_KEYS) {
            let positions = seen.start.max(block)..seen.end.min(block + BLOCK_KEYS);
            work.pack_block(lanes, tile, block, positions);
            for first in (0..queries).step_by(TILE_ROWS) {
                let run = first..queries.min(first + TILE_ROWS);
                let sees = |query| !keys_in(block, tile.visible(query)).is_empty();
                if run.clone().any(sees) {
                    work.attend(lanes, self.tiles, tile, block, run);
                }
            }
        }
        for query in 0..queries {
            let total = base.splat(work.total[query]);
            let sums = &work.sums[query * work.sum_dim..];
            // SAFETY: one query at a time.
            let out = unsafe { tile.out(query) }.chunks_mut(<S::Floats as Lanes>::COUNT);
            for (out, sums) in out.zip(sums.chunks(<S::Floats as Lanes>::COUNT)) {
                base.write(base.div(base.read(sums), total), out);
            }
        }
    }
}

/// The worker's memory, divided up.
struct Work<'a> {
    /// Tiles of all queries.
    queries: &'a mut [bf16],
    /// `[dim tiles][SCORE_TILES]` tiles: pairs of a key's numbers by keys.
    keys: &'a mut [bf16],
    /// `[WEIGHT_TILES][sum tiles]` tiles: pairs of values by their numbers.
    values: &'a mut [bf16],
    /// `[16, BLOCK_KEYS]`: scores, then weights.
    scores: &'a mut [f32],
    /// `[WEIGHT_TILES]` tiles of sixteen queries.
    weights: &'a mut [bf16],
    /// `[queries, sum_dim]`
    sums: &'a mut [f32],
    /// `[queries]`: largest score so far, and sum of weights.
    largest: &'a mut [f32],
    total: &'a mut [f32],
    /// `[BLOCK_KEYS, key_dim or value_dim]`
    wide_keys: &'a mut [f32],
    wide_values: &'a mut [f32],
    /// Tiles of a query.
    dim_tiles: usize,
    /// Numbers of a value, in whole tiles.
    sum_dim: usize,
}

impl<'a> Work<'a> {
    fn divide(memory: &'a mut [f32], tile: &Tile<'_>) -> Self {
        let (key_dim, value_dim) = (tile.kv.key_dim(), tile.kv.value_dim());
        let rows = tile.queries().next_multiple_of(TILE_ROWS);
        let dim_tiles = key_dim.div_ceil(BLOCK_COLUMNS);
        let sum_dim = value_dim.next_multiple_of(STRIP_ROWS);
        // Parts for tiles first, which then start at cache lines.
        let (queries, memory) = memory.split_at_mut(rows / TILE_ROWS * tiles_numbers(key_dim) / 2);
        let (keys, memory) = memory.split_at_mut(dim_tiles * SCORE_TILES * TILE_NUMBERS / 2);
        let (values, memory) = memory.split_at_mut(BLOCK_KEYS * sum_dim / 2);
        let (scores, memory) = memory.split_at_mut(TILE_ROWS * BLOCK_KEYS);
        let (weights, memory) = memory.split_at_mut(WEIGHT_TILES * TILE_NUMBERS / 2);
        let (sums, memory) = memory.split_at_mut(rows * sum_dim);
        let (largest, memory) = memory.split_at_mut(rows);
        let (total, memory) = memory.split_at_mut(rows);
        let (wide_keys, memory) = memory.split_at_mut(BLOCK_KEYS * key_dim);
        let wide_values = &mut memory[..BLOCK_KEYS * value_dim];
        let [queries, keys, values, weights] = [queries, keys, values, weights].map(as_bf16);
        Work {
            queries,
            keys,
            values,
            scores,
            weights,
            sums,
            largest,
            total,
            wide_keys,
            wide_values,
            dim_tiles,
            sum_dim,
        }
    }

    #[inline(always)]
    fn pack_queries<S: StripLanes>(&mut self, lanes: S, tile: &Tile<'_>) {
        let numbers = tiles_numbers(tile.kv.key_dim());
        for (group, out) in self.queries.chunks_exact_mut(numbers).enumerate() {
            let first = group * TILE_ROWS;
            for row in 0..TILE_ROWS {
                let q = if first + row < tile.queries() { tile.q(first + row) } else { &[] };
                tile_row(lanes, q, row, out);
            }
        }
    }

    /// Fetches the keys and values of `positions`, which lie in `block`; others of it become 0.
    #[inline(always)]
    fn pack_block<S: StripLanes>(
        &mut self,
        lanes: S,
        tile: &Tile<'_>,
        block: usize,
        positions: Range<usize>,
    ) {
        let (base, inside) = (lanes.floats(), positions.start - block..positions.end - block);
        let (key_dim, value_dim) = (tile.kv.key_dim(), tile.kv.value_dim());
        if inside.len() < BLOCK_KEYS {
            self.wide_keys.fill(0.0);
            self.wide_values.fill(0.0);
        }
        tile.kv.widen_keys(base, positions.clone(), &mut self.wide_keys[inside.start * key_dim..]);
        let values = &mut self.wide_values[inside.start * value_dim..];
        tile.kv.widen_values(base, positions, values);
        for (key, numbers) in self.wide_keys.chunks_exact(key_dim).enumerate() {
            pack_key(lanes, numbers, key, self.keys);
        }
        for (pair, numbers) in self.wide_values.chunks_exact(2 * value_dim).enumerate() {
            let (first, second) = numbers.split_at(value_dim);
            let (tile, row) = (pair / 16 * (self.sum_dim / STRIP_ROWS), pair % 16);
            pack_values(lanes, first, second, row, &mut self.values[tile * TILE_NUMBERS..]);
        }
    }

    /// Takes up to sixteen queries over the keys of a block.
    #[inline(always)]
    fn attend<S: StripLanes>(
        &mut self,
        lanes: S,
        tiles: Tiles,
        tile: &Tile<'_>,
        block: usize,
        run: Range<usize>,
    ) {
        let base = lanes.floats();
        let numbers = self.dim_tiles * TILE_NUMBERS;
        let queries = &self.queries[run.start / TILE_ROWS * numbers..][..numbers];
        tiles.score(queries, self.keys, self.scores);
        for query in run.clone() {
            let row = query - run.start;
            let scores = &mut self.scores[row * BLOCK_KEYS..(row + 1) * BLOCK_KEYS];
            let keys = keys_in(block, tile.visible(query));
            if keys.is_empty() {
                scores.fill(0.0);
            } else {
                let state = (&mut self.largest[query], &mut self.total[query]);
                let shrink = carry_on(base, scores, &keys, tile.scale, state);
                if shrink != 1.0 {
                    let sums = &mut self.sums[query * self.sum_dim..][..self.sum_dim];
                    for sums in sums.chunks_exact_mut(<S::Floats as Lanes>::COUNT) {
                        base.write(base.mul(base.read(sums), base.splat(shrink)), sums);
                    }
                }
            }
            tile_row(lanes, scores, row, self.weights);
        }
        let sums = &mut self.sums[run.start * self.sum_dim..][..TILE_ROWS * self.sum_dim];
        tiles.add_weighted(self.weights, self.values, sums);
    }
}

/// Puts a key into its lane of the tiles of `out`.
#[inline(always)]
fn pack_key<S: StripLanes>(lanes: S, numbers: &[f32], key: usize, out: &mut [bf16]) {
    let (column, lane) = (key / STRIP_ROWS, key % STRIP_ROWS);
    for (i, numbers) in numbers.chunks(BLOCK_COLUMNS).enumerate() {
        let mut narrowed = [bf16::ZERO; BLOCK_COLUMNS];
        narrow(lanes, numbers, &mut narrowed);
        let tile = &mut out[(i * SCORE_TILES + column) * TILE_NUMBERS..][..TILE_NUMBERS];
        let lanes_of_rows = tile.as_chunks_mut::<2>().0.iter_mut().skip(lane).step_by(STRIP_ROWS);
        for (to, pair) in lanes_of_rows.zip(narrowed.as_chunks::<2>().0) {
            *to = *pair;
        }
    }
}

/// Puts two neighbouring values into row `row` of the tiles of `out`.
#[inline(always)]
fn pack_values<S: StripLanes>(
    lanes: S,
    first: &[f32],
    second: &[f32],
    row: usize,
    out: &mut [bf16],
) {
    let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
    for (i, (first, second)) in first.chunks(count).zip(second.chunks(count)).enumerate() {
        let (tile, lane) = (i * count / STRIP_ROWS, i * count % STRIP_ROWS);
        let at = tile * TILE_NUMBERS + 2 * (row * STRIP_ROWS + lane);
        let to = &mut out[at..at + 2 * count];
        // SAFETY: so many pairs of two bytes are borrowed.
        unsafe {
            let pairs = lanes.join_bf16(base.read(first), base.read(second));
            lanes.store_ints(pairs, to.as_mut_ptr().cast());
        }
    }
}

fn as_bf16(memory: &mut [f32]) -> &mut [bf16] {
    // SAFETY: any two bytes are a bf16.
    unsafe { memory.align_to_mut().1 }
}

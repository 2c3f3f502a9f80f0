//! A tile of a prompt's queries on the matrix units.
//!
//! Queries, keys, values and the weights of values are rounded to bf16; scores, sums and the
//! softmax are f32. Keys come in the blocks of [`attention`](crate::attention), so here too a
//! query's result depends on key positions alone: keys that it does not see have weight 0, and
//! adding nothing changes nothing.
//!
//! Sixteen queries are the columns of their scores and sums; keys and numbers of values are rows.

use std::f32::consts::LOG2_E;
use std::ops::Range;

use half::bf16;

use super::Tile;
use super::prompt_softmax::{Seen, hide};
use super::simd::keys_in;
use crate::attention::BLOCK_KEYS;
use crate::lanes::{Lanes, StripKernel, StripLanes, Tiles};
use crate::strips::{
    BLOCK_COLUMNS, STRIP_ROWS, TILE_NUMBERS, TILE_ROWS, narrow, tile_row, tiles_numbers,
};

/// Queries of a tile: fetching and turning a block of keys costs as much as attention of sixty.
pub(super) const PROMPT_TILE_QUERIES: usize = 384;

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
        let tile = &self.tile;
        let mut work = Work::divide(memory, tile);
        let queries = tile.queries();
        work.pack_queries(lanes, tile);
        work.sums.fill(0.0);
        work.seen.fill(Seen::NOTHING);
        let seen = tile.visible(0).start..tile.visible(queries - 1).end;
        let first_block = seen.start / BLOCK_KEYS * BLOCK_KEYS;
        for block in (first_block..seen.end).step_by(BLOCK_KEYS) {
            let positions = seen.start.max(block)..seen.end.min(block + BLOCK_KEYS);
            work.pack_block(lanes, tile, block, positions);
            for first in (0..queries).step_by(TILE_ROWS) {
                let run = first..queries.min(first + TILE_ROWS);
                work.attend(lanes, self.tiles, tile, block, run);
            }
        }
        for first in (0..queries).step_by(TILE_ROWS) {
            work.write(lanes, tile, first..queries.min(first + TILE_ROWS));
        }
    }
}

/// The worker's memory, divided up.
struct Work<'a> {
    /// Tiles of sixteen queries each: pairs of their numbers by queries.
    queries: &'a mut [bf16],
    /// Tiles of sixteen keys each: keys by their numbers.
    keys: &'a mut [bf16],
    /// `[BLOCK_KEYS / 32, sum_dim / 16]` tiles: numbers of values by keys.
    values: &'a mut [bf16],
    /// `[BLOCK_KEYS, 16]`
    scores: &'a mut [f32],
    /// `[BLOCK_KEYS / 32]` tiles: pairs of keys by queries.
    weights: &'a mut [bf16],
    /// `[queries / 16, sum_dim, 16]`
    sums: &'a mut [f32],
    /// `[queries / 16]`
    seen: &'a mut [Seen],
    /// `[BLOCK_KEYS, key_dim or value_dim]`
    wide_keys: &'a mut [f32],
    wide_values: &'a mut [f32],
    /// Numbers of a value, in whole tiles.
    sum_dim: usize,
}

impl<'a> Work<'a> {
    fn divide(memory: &'a mut [f32], tile: &Tile<'_>) -> Self {
        let (key_dim, value_dim) = (tile.kv.key_dim(), tile.kv.value_dim());
        let rows = tile.queries().next_multiple_of(TILE_ROWS);
        let sum_dim = value_dim.next_multiple_of(STRIP_ROWS);
        // Parts for tiles first, which then start at cache lines.
        let (queries, memory) = memory.split_at_mut(rows / TILE_ROWS * tiles_numbers(key_dim) / 2);
        let (keys, memory) =
            memory.split_at_mut(BLOCK_KEYS / TILE_ROWS * tiles_numbers(key_dim) / 2);
        let (values, memory) = memory.split_at_mut(BLOCK_KEYS * sum_dim / 2);
        let (scores, memory) = memory.split_at_mut(BLOCK_KEYS * TILE_ROWS);
        let (weights, memory) = memory.split_at_mut(BLOCK_KEYS * TILE_ROWS / 2);
        let (sums, memory) = memory.split_at_mut(rows * sum_dim);
        let (seen, memory) = memory.split_at_mut(2 * rows);
        let (wide_keys, memory) = memory.split_at_mut(BLOCK_KEYS * key_dim);
        let wide_values = &mut memory[..BLOCK_KEYS * value_dim];
        let [queries, keys, values, weights] = [queries, keys, values, weights].map(as_bf16);
        // SAFETY: it is made of f32 alone.
        let seen = unsafe { seen.align_to_mut().1 };
        Work { queries, keys, values, scores, weights, sums, seen, wide_keys, wide_values, sum_dim }
    }

    /// Scaled so that a score is a power of 2.
    #[inline(always)]
    fn pack_queries<S: StripLanes>(&mut self, lanes: S, tile: &Tile<'_>) {
        let base = lanes.floats();
        let scale = base.splat(tile.scale * LOG2_E);
        self.queries.fill(bf16::ZERO);
        let groups = self.queries.chunks_exact_mut(tiles_numbers(tile.kv.key_dim()));
        for (group, out) in groups.enumerate() {
            let first = group * TILE_ROWS;
            for query in first..tile.queries().min(first + TILE_ROWS) {
                let tiles = out.chunks_exact_mut(TILE_NUMBERS);
                for (numbers, tile) in tile.q.get(query).chunks(BLOCK_COLUMNS).zip(tiles) {
                    let mut scaled = [0.0; BLOCK_COLUMNS];
                    let count = <S::Floats as Lanes>::COUNT;
                    for (q, scaled) in numbers.chunks(count).zip(scaled.chunks_mut(count)) {
                        base.write(base.mul(base.read(q), scale), scaled);
                    }
                    let row = (query - first) * BLOCK_COLUMNS;
                    narrow(lanes, &scaled, &mut tile[row..row + BLOCK_COLUMNS]);
                }
            }
            transpose(lanes, out);
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
            let tiles = &mut self.keys[key / TILE_ROWS * tiles_numbers(key_dim)..];
            tile_row(lanes, numbers, key % TILE_ROWS, &mut tiles[..tiles_numbers(key_dim)]);
        }
        for (pair, numbers) in self.wide_values.chunks_exact(2 * value_dim).enumerate() {
            let (first, second) = numbers.split_at(value_dim);
            let (tile, row) = (pair / 16 * (self.sum_dim / STRIP_ROWS), pair % 16);
            pack_values(lanes, first, second, row, &mut self.values[tile * TILE_NUMBERS..]);
        }
        transpose(lanes, self.values);
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
        let [first, last] =
            [run.start, run.end - 1].map(|query| keys_in(block, tile.visible(query)));
        let start = first.start / BLOCK_COLUMNS * BLOCK_COLUMNS;
        let seen = start..last.end.next_multiple_of(BLOCK_COLUMNS).max(start);
        if seen.is_empty() {
            return;
        }
        let (base, group) = (lanes.floats(), run.start / TILE_ROWS);
        let numbers = tiles_numbers(tile.kv.key_dim());
        let queries = &self.queries[group * numbers..][..numbers];
        let per_key = numbers / TILE_ROWS;
        let keys = &self.keys[seen.start * per_key..seen.end * per_key];
        let scores = &mut self.scores[..seen.len() * TILE_ROWS];
        tiles.score(keys, queries, scores);
        if first.end < seen.end || seen.start < last.start {
            let (mut starts, mut ends) = ([0.0; TILE_ROWS], [0.0; TILE_ROWS]);
            for (i, query) in run.clone().enumerate() {
                let visible = keys_in(block, tile.visible(query));
                [starts[i], ends[i]] = [visible.start as f32, visible.end as f32];
            }
            hide(base, scores, seen.start, &starts, &ends);
        }
        let weights = &mut self.weights[..seen.len() * TILE_ROWS];
        let shrink = self.seen[group].carry_on(lanes, scores, weights);
        let sums = &mut self.sums[run.start * self.sum_dim..][..TILE_ROWS * self.sum_dim];
        if let Some(shrink) = shrink {
            for sums in sums.chunks_exact_mut(TILE_ROWS) {
                let columns = sums.chunks_exact_mut(<S::Floats as Lanes>::COUNT);
                for (sums, shrink) in columns.zip(shrink.chunks_exact(<S::Floats as Lanes>::COUNT))
                {
                    base.write(base.mul(base.read(sums), base.read(shrink)), sums);
                }
            }
        }
        let values = &self.values[seen.start * self.sum_dim..seen.end * self.sum_dim];
        tiles.add_weighted(values, weights, sums);
    }

    /// Writes the results of up to sixteen queries.
    #[inline(always)]
    fn write<S: StripLanes>(&self, lanes: S, tile: &Tile<'_>, run: Range<usize>) {
        let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
        let total = self.seen[run.start / TILE_ROWS].total;
        let sums = &self.sums[run.start * self.sum_dim..][..TILE_ROWS * self.sum_dim];
        for (i, sums) in sums.chunks_exact(TILE_ROWS * STRIP_ROWS).enumerate() {
            let mut square = [[0.0; STRIP_ROWS]; TILE_ROWS];
            for (row, sums) in square.iter_mut().zip(sums.chunks_exact(STRIP_ROWS)) {
                for at in (0..STRIP_ROWS).step_by(count) {
                    let mean = base.div(base.read(&sums[at..]), base.read(&total[at..]));
                    base.write(mean, &mut row[at..]);
                }
            }
            lanes.transpose(&mut square);
            let columns = i * TILE_ROWS..tile.kv.value_dim().min((i + 1) * TILE_ROWS);
            for (query, numbers) in run.clone().zip(&square) {
                // SAFETY: one query at a time.
                let out = &mut unsafe { tile.out.get(query) }[columns.clone()];
                for (out, numbers) in out.chunks_mut(count).zip(numbers.chunks_exact(count)) {
                    base.write(base.read(numbers), out);
                }
            }
        }
    }
}

/// Turns the pairs of each tile.
#[inline(always)]
fn transpose<S: StripLanes>(lanes: S, tiles: &mut [bf16]) {
    // SAFETY: any four bytes are an f32, and scratch is divided at multiples of four.
    let squares = unsafe { tiles.align_to_mut().1 };
    for square in squares {
        lanes.transpose(square);
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

//! Queries of a prompt on the matrix units, over a block of keys at a time.
//!
//! Queries, keys, values and the weights of values are rounded to bf16; scores, sums and the
//! softmax are f32. A query's result depends on the numbers of its keys alone: keys that it does
//! not see have weight 0, and adding nothing changes nothing.
//!
//! Sixteen queries are the columns of their scores and sums; keys and numbers of values are rows.
//! Whoever has the keys puts a block of them into the memory for wide rows, packs them, and for
//! each sixteen queries computes scores, hides those of keys that are not seen, and weighs values.

use std::ops::Range;

use half::bf16;

use super::prompt_silu::{hide_as_zero, silu_weights};
use super::prompt_softmax::Seen;
use super::{BLOCK_KEYS, OutRows, QueryRows};
use crate::cpu::lanes::{Lanes, PanelLanes, Tiles};
use crate::tiles::{
    BLOCK_COLUMNS, PANEL_ROWS, TILE_NUMBERS, TILE_ROWS, narrow, tile_row, tiles_numbers,
};

/// Queries of a tile: fetching and packing a block of keys costs as much as attention of sixty.
pub(crate) const PROMPT_TILE_QUERIES: usize = 384;

/// A worker's memory, divided up.
pub(crate) struct PromptWork<'a> {
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
    /// `[BLOCK_KEYS, key_dim or value_dim]`: what is packed next.
    pub(crate) wide_keys: &'a mut [f32],
    pub(crate) wide_values: &'a mut [f32],
    key_dim: usize,
    value_dim: usize,
    /// Numbers of a value, in whole tiles.
    sum_dim: usize,
}

/// Numbers of f32 that so many queries need.
pub(crate) const fn prompt_floats(queries: usize, key_dim: usize, value_dim: usize) -> usize {
    let (queries, dim) = (queries.next_multiple_of(TILE_ROWS), key_dim.next_multiple_of(32));
    let sums = value_dim.next_multiple_of(PANEL_ROWS);
    queries * (dim / 2 + sums + 2)
        + BLOCK_KEYS * (dim / 2 + sums / 2 + key_dim + value_dim)
        + TILE_ROWS * (BLOCK_KEYS + BLOCK_KEYS / 2)
}

/// Numbers of f32 that the tiles of so many queries need.
pub(crate) const fn query_floats(queries: usize, key_dim: usize) -> usize {
    queries.div_ceil(TILE_ROWS) * tiles_numbers(key_dim) / 2
}

impl<'a> PromptWork<'a> {
    /// For queries that have seen nothing.
    pub(crate) fn divide(
        memory: &'a mut [f32],
        queries: usize,
        [key_dim, value_dim]: [usize; 2],
    ) -> Self {
        let rows = queries.next_multiple_of(TILE_ROWS);
        let sum_dim = value_dim.next_multiple_of(PANEL_ROWS);
        // Parts for tiles first, which then start at cache lines.
        let (queries, memory) = memory.split_at_mut(query_floats(queries, key_dim));
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
        let seen: &mut [Seen] = unsafe { seen.align_to_mut().1 };
        sums.fill(0.0);
        seen.fill(Seen::NOTHING);
        PromptWork {
            queries,
            keys,
            values,
            scores,
            weights,
            sums,
            seen,
            wide_keys,
            wide_values,
            key_dim,
            value_dim,
            sum_dim,
        }
    }

    #[inline(always)]
    pub(crate) fn pack_queries<S: PanelLanes>(
        &mut self,
        lanes: S,
        q: &QueryRows<'_>,
        queries: usize,
        scale: f32,
    ) {
        pack_queries(lanes, q, queries, scale, self.queries);
    }

    #[inline(always)]
    pub(crate) fn pack_keys<S: PanelLanes>(&mut self, lanes: S) {
        let numbers_of = tiles_numbers(self.key_dim);
        for (key, numbers) in self.wide_keys.chunks_exact(self.key_dim).enumerate() {
            let tiles = &mut self.keys[key / TILE_ROWS * numbers_of..][..numbers_of];
            tile_row(lanes, numbers, &[], key % TILE_ROWS, tiles);
        }
    }

    #[inline(always)]
    pub(crate) fn pack_values<S: PanelLanes>(&mut self, lanes: S) {
        for (pair, numbers) in self.wide_values.chunks_exact(2 * self.value_dim).enumerate() {
            let (first, second) = numbers.split_at(self.value_dim);
            let (tile, row) = (pair / 16 * (self.sum_dim / PANEL_ROWS), pair % 16);
            pack_values(lanes, first, second, row, &mut self.values[tile * TILE_NUMBERS..]);
        }
        transpose(lanes, self.values);
    }

    /// The scores of sixteen queries, the `run`-th, with some of the block's keys: whole tiles,
    /// and an even number of them.
    #[inline(always)]
    pub(crate) fn score(&mut self, tiles: Tiles<'_>, run: usize, keys: Range<usize>) {
        let numbers = tiles_numbers(self.key_dim);
        let queries = &self.queries[run * numbers..][..numbers];
        let per_key = numbers / TILE_ROWS;
        let scores = &mut self.scores[..keys.len() * TILE_ROWS];
        tiles.score(&self.keys[keys.start * per_key..keys.end * per_key], queries, scores);
    }

    /// As `score` with the block's first keys and other queries · scores: `[keys, 16]`
    #[inline(always)]
    pub(crate) fn score_others(&self, tiles: Tiles<'_>, queries: &[bf16], scores: &mut [f32]) {
        let per_key = tiles_numbers(self.key_dim) / TILE_ROWS;
        tiles.score(&self.keys[..scores.len() / TILE_ROWS * per_key], queries, scores);
    }

    /// The scores of so many keys, `[keys, 16]`.
    pub(crate) fn scores(&mut self, keys: usize) -> &mut [f32] {
        &mut self.scores[..keys * TILE_ROWS]
    }

    /// What the `run`-th sixteen queries have seen.
    pub(crate) fn seen(&self, run: usize) -> &Seen {
        &self.seen[run]
    }

    /// Adds what the block's keys weigh in the end, given the scores of the `run`-th sixteen
    /// queries · sums: `[BLOCK_KEYS, 16]`
    #[inline(always)]
    pub(crate) fn add_weights<L: Lanes>(
        &self,
        lanes: L,
        run: usize,
        factors: &[f32; PANEL_ROWS],
        sums: &mut [f32],
    ) {
        self.seen[run].add_weights(lanes, self.scores, factors, sums);
    }

    /// Turns the scores of sixteen queries with some of the block's keys into weights, and adds
    /// what they weigh.
    #[inline(always)]
    pub(crate) fn weigh<S: PanelLanes>(
        &mut self,
        lanes: S,
        tiles: Tiles<'_>,
        run: usize,
        keys: Range<usize>,
    ) {
        let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
        let scores = &self.scores[..keys.len() * TILE_ROWS];
        let weights = &mut self.weights[..keys.len() * TILE_ROWS];
        let shrink = self.seen[run].carry_on(lanes, scores, weights);
        let numbers = TILE_ROWS * self.sum_dim;
        let sums = &mut self.sums[run * numbers..][..numbers];
        if let Some(shrink) = shrink {
            for sums in sums.chunks_exact_mut(TILE_ROWS) {
                for (sums, shrink) in sums.chunks_exact_mut(count).zip(shrink.chunks_exact(count)) {
                    base.write(base.mul(base.read(sums), base.read(shrink)), sums);
                }
            }
        }
        let values = &self.values[keys.start * self.sum_dim..keys.end * self.sum_dim];
        tiles.add_weighted(values, weights, sums);
    }

    /// Turns the scores of sixteen queries with some of the block's keys into pointwise weights,
    /// and adds what they weigh. `seen`, if some keys are hidden: the first key of the block that
    /// each query sees, and the one behind the last.
    #[inline(always)]
    pub(crate) fn weigh_silu<S: PanelLanes>(
        &mut self,
        lanes: S,
        tiles: Tiles<'_>,
        run: usize,
        keys: Range<usize>,
        seen: Option<&[[f32; PANEL_ROWS]; 2]>,
    ) {
        let scores = &mut self.scores[..keys.len() * TILE_ROWS];
        if let Some(seen) = seen {
            hide_as_zero(lanes.floats(), scores, keys.start, seen);
        }
        let weights = &mut self.weights[..keys.len() * TILE_ROWS];
        silu_weights(lanes, scores, weights);
        let numbers = TILE_ROWS * self.sum_dim;
        let sums = &mut self.sums[run * numbers..][..numbers];
        let values = &self.values[keys.start * self.sum_dim..keys.end * self.sum_dim];
        tiles.add_weighted(values, weights, sums);
    }

    /// Writes the results of up to sixteen queries, which start at a multiple of them: the means of
    /// what they have seen.
    #[inline(always)]
    pub(crate) fn write<S: PanelLanes>(&self, lanes: S, out: &OutRows<'_>, queries: Range<usize>) {
        let total = self.seen[queries.start / TILE_ROWS].total;
        self.write_divided(lanes, out, queries, &total);
    }

    /// As [`write`](Self::write), of sums divided by `total`.
    #[inline(always)]
    pub(crate) fn write_divided<S: PanelLanes>(
        &self,
        lanes: S,
        out: &OutRows<'_>,
        queries: Range<usize>,
        total: &[f32; PANEL_ROWS],
    ) {
        let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
        let sums = &self.sums[queries.start * self.sum_dim..][..TILE_ROWS * self.sum_dim];
        for (i, sums) in sums.chunks_exact(TILE_ROWS * PANEL_ROWS).enumerate() {
            let mut square = [[0.0; PANEL_ROWS]; TILE_ROWS];
            for (row, sums) in square.iter_mut().zip(sums.chunks_exact(PANEL_ROWS)) {
                for at in (0..PANEL_ROWS).step_by(count) {
                    let mean = base.div(base.read(&sums[at..]), base.read(&total[at..]));
                    base.write(mean, &mut row[at..]);
                }
            }
            lanes.transpose(&mut square);
            let columns = i * TILE_ROWS..self.value_dim.min((i + 1) * TILE_ROWS);
            for (query, numbers) in queries.clone().zip(&square) {
                // SAFETY: one query at a time.
                let out = &mut unsafe { out.get(query) }[columns.clone()];
                for (out, numbers) in out.chunks_mut(count).zip(numbers.chunks_exact(count)) {
                    base.write(base.read(numbers), out);
                }
            }
        }
    }
}

/// Puts queries into tiles, multiplied by `scale`.
#[inline(always)]
pub(crate) fn pack_queries<S: PanelLanes>(
    lanes: S,
    q: &QueryRows<'_>,
    queries: usize,
    scale: f32,
    out: &mut [bf16],
) {
    let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
    let scale = base.splat(scale);
    out.fill(bf16::ZERO);
    let runs = queries.div_ceil(TILE_ROWS);
    for (run, out) in out.chunks_exact_mut(out.len() / runs).enumerate() {
        let first = run * TILE_ROWS;
        for query in first..queries.min(first + TILE_ROWS) {
            let tiles = out.chunks_exact_mut(TILE_NUMBERS);
            for (numbers, tile) in q.get(query).chunks(BLOCK_COLUMNS).zip(tiles) {
                let mut scaled = [0.0; BLOCK_COLUMNS];
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

/// Transposes the pairs of each tile.
#[inline(always)]
fn transpose<S: PanelLanes>(lanes: S, tiles: &mut [bf16]) {
    // SAFETY: any four bytes are an f32, and scratch is divided at multiples of four.
    let squares = unsafe { tiles.align_to_mut().1 };
    for square in squares {
        lanes.transpose(square);
    }
}

/// Puts two neighbouring values into row `row` of the tiles of `out`.
#[inline(always)]
fn pack_values<S: PanelLanes>(
    lanes: S,
    first: &[f32],
    second: &[f32],
    row: usize,
    out: &mut [bf16],
) {
    let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
    for (i, (first, second)) in first.chunks(count).zip(second.chunks(count)).enumerate() {
        let (tile, lane) = (i * count / PANEL_ROWS, i * count % PANEL_ROWS);
        let at = tile * TILE_NUMBERS + 2 * (row * PANEL_ROWS + lane);
        let to = &mut out[at..at + 2 * count];
        // SAFETY: so many pairs of two bytes are borrowed.
        unsafe {
            let pairs = lanes.join_bf16(base.read(first), base.read(second));
            lanes.store_ints(pairs, to.as_mut_ptr().cast());
        }
    }
}

/// Memory for tiles.
pub(crate) fn as_bf16(memory: &mut [f32]) -> &mut [bf16] {
    // SAFETY: any two bytes are a bf16.
    unsafe { memory.align_to_mut().1 }
}

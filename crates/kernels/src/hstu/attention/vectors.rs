//! A tile of rows over vectors, block of keys by block.
//!
//! A row touches no key that it does not see, and its sums are chains over its keys in order, so
//! neither the tile nor the step around it shows in the result.

use std::ops::Range;

use super::reference;
use super::tile::{Segment, Tile};
use crate::attention::blocks::{
    BLOCK_KEYS, BlockRows, DIRECT_QUERIES, RowType, ScoreRows, Weighing, add_weighted, score,
};
use crate::cpu::lanes::{Kernel, Lanes};
use crate::hstu::activate::silu;

impl Kernel for Tile<'_> {
    fn reference(self) {
        for row in 0..self.rows() {
            // SAFETY: one row at a time.
            let out = unsafe { self.out.get(row) };
            let span = self.span(row);
            let candidates = span.candidates.map(|i| self.first_candidate + i);
            let bias = |j: usize| {
                let mut bias = [0.0];
                self.add_bias(row, j, &mut bias);
                bias[0]
            };
            let key = |j, i| self.kv.key_element(j, i);
            let value = |j, i| self.kv.value_element(j, i);
            let positions = span.history.chain(candidates);
            reference::attend(self.q.get(row), self.scale, positions, bias, key, value, out);
            self.finish(row, out);
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(mut self, lanes: L) {
        let memory = std::mem::take(&mut self.scratch);
        let rows = self.rows();
        for row in 0..rows {
            // SAFETY: one row at a time.
            unsafe { self.out.get(row) }.fill(0.0);
        }
        let mut work = Work::divide(memory, &self);
        for segment in [Segment::History, Segment::Candidates] {
            work.add_segment(lanes, &self, segment);
        }
        for row in 0..rows {
            // SAFETY: one row at a time.
            self.finish(row, unsafe { self.out.get(row) });
        }
    }
}

/// Memory for a block, divided up.
pub(super) struct Work<'a> {
    /// `[BLOCK_KEYS, key_dim]` and `[BLOCK_KEYS, value_dim]`: a block as f32.
    wide_keys: &'a mut [f32],
    wide_values: &'a mut [f32],
    /// `[rows, BLOCK_KEYS]`: scores, then weights.
    scores: &'a mut [f32],
    /// `[rows]`: ones, for sums are not scaled.
    ones: &'a mut [f32],
}

impl<'a> Work<'a> {
    pub(super) fn divide(memory: &'a mut [f32], tile: &Tile<'_>) -> Self {
        let rows = tile.rows();
        let (wide_keys, memory) = memory.split_at_mut(BLOCK_KEYS * tile.kv.key_dim());
        let (wide_values, memory) = memory.split_at_mut(BLOCK_KEYS * tile.kv.value_dim());
        let (scores, memory) = memory.split_at_mut(BLOCK_KEYS * rows);
        let ones = &mut memory[..rows];
        ones.fill(1.0);
        Work { wide_keys, wide_values, scores, ones }
    }

    /// Adds what the rows of a tile see of a segment to their sums.
    #[inline(always)]
    pub(super) fn add_segment<L: Lanes>(&mut self, lanes: L, tile: &Tile<'_>, segment: Segment) {
        let (seen, rows) = (tile.seen(segment), tile.rows());
        if seen.is_empty() {
            return;
        }
        let first_position = tile.first_position(segment);
        let few = |kind: &RowType| *kind == RowType::F32 || rows <= DIRECT_QUERIES;
        let nothing = [0, 0].map(|dim| BlockRows::new(RowType::F32, dim));
        let mut direct = tile.kv.kind().filter(few).map(|kind| tile.kv.room(kind));
        for block in (seen.start / BLOCK_KEYS * BLOCK_KEYS..seen.end).step_by(BLOCK_KEYS) {
            let inside = |key: usize| key.clamp(seen.start, seen.end);
            let (start, end) = (inside(block), inside(block + BLOCK_KEYS));
            let positions = first_position + start..first_position + end;
            let wide_rows;
            let keys = match &mut direct {
                Some(room) => {
                    tile.kv.find(&positions, room);
                    &*room
                }
                None => {
                    let (keys, values) = (&mut *self.wide_keys, &mut *self.wide_values);
                    tile.kv.widen_keys(lanes, positions.clone(), keys);
                    tile.kv.widen_values(lanes, positions, values);
                    let keys = BlockRows::of_wide(keys, tile.kv.key_dim());
                    wide_rows = [keys, BlockRows::of_wide(values, tile.kv.value_dim())];
                    &wide_rows
                }
            };
            let visible = |row: usize| {
                let visible = tile.visible(segment, row);
                let inside = |key: usize| key.clamp(start, end) - start;
                inside(visible.start)..inside(visible.end)
            };
            let mut row = 0;
            while row < rows {
                let keys_seen = visible(row);
                let alike = |&other: &usize| visible(other) == keys_seen;
                let run = row..row + (row..rows).take_while(alike).count();
                row = run.end;
                if !keys_seen.is_empty() {
                    let first = first_position + start + keys_seen.start;
                    let mut weighed =
                        Weighed { tile, scores: &mut *self.scores, ones: &*self.ones };
                    weighed.add(lanes, run, [keys, &nothing], keys_seen, first);
                }
            }
        }
    }
}

struct Weighed<'w, 'a> {
    tile: &'w Tile<'a>,
    scores: &'w mut [f32],
    ones: &'w [f32],
}

impl Weighed<'_, '_> {
    /// Takes a run of rows over keys of a block that each of them sees, the first of which lies at
    /// `position`.
    #[inline(always)]
    fn add<L: Lanes>(
        &mut self,
        lanes: L,
        run: Range<usize>,
        [[keys, values], [no_keys, no_values]]: [&[BlockRows<'_>; 2]; 2],
        seen: Range<usize>,
        position: usize,
    ) {
        let tile = self.tile;
        let mut scores = ScoreRows { numbers: &mut *self.scores, stride: BLOCK_KEYS, start: 0 };
        score(lanes, &tile.q, run.clone(), [keys, no_keys], seen.clone(), &mut scores);
        let scale = lanes.splat(tile.scale);
        for row in run.clone() {
            let part = scores.part(row, seen.clone());
            let scores = &mut scores.numbers[part];
            for scores in scores.chunks_mut(L::COUNT) {
                lanes.write(lanes.mul(lanes.read(scores), scale), scores);
            }
            tile.add_bias(row, position, scores);
            for scores in scores.chunks_mut(L::COUNT) {
                lanes.write(silu(lanes, lanes.read(scores)), scores);
            }
        }
        let weighing = Weighing {
            out: tile.out,
            rows: values,
            ahead: no_values,
            keys: seen,
            weights: &scores,
            shrink: self.ones,
        };
        // SAFETY: these rows are this task's, and no slice of their results is alive.
        unsafe { add_weighted(lanes, run, &weighing) };
    }
}

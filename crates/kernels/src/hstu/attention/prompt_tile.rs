//! A tile of rows on the matrix units: the history through [`PromptWork`], and then candidates over
//! vectors.
//!
//! Queries, keys, values and weights are rounded to bf16, sums are f32. Keys that a row does not
//! see have weight 0. Rows of candidates mostly see themselves alone, which is no work for a
//! matrix unit.

use std::ops::Range;

use super::attend_args::RowScale;
use super::tile::{Segment, Tile};
use super::vectors::Work;
use crate::attention::blocks::{BLOCK_KEYS, PromptWork};
use crate::cpu::lanes::{Kernel, Lanes, PanelKernel, PanelLanes, Tiles};
use crate::tiles::{BLOCK_COLUMNS, PANEL_ROWS, TILE_ROWS};

pub(super) struct PromptTile<'a> {
    pub(super) tile: Tile<'a>,
    pub(super) tiles: Tiles<'a>,
}

impl PanelKernel for PromptTile<'_> {
    type Output = ();

    fn reference(self) {
        unreachable!("without vectors there are no matrix units");
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(mut self, lanes: S) {
        let memory = std::mem::take(&mut self.tile.scratch);
        let tile = &self.tile;
        let rows = tile.rows();
        let dims = [tile.kv.key_dim(), tile.kv.value_dim()];
        let mut work = PromptWork::divide(memory, rows, dims);
        work.pack_queries(lanes, &tile.q, rows, tile.scale);
        let seen = tile.seen(Segment::History);
        for block in (seen.start / BLOCK_KEYS * BLOCK_KEYS..seen.end).step_by(BLOCK_KEYS) {
            let positions = seen.start.max(block)..seen.end.min(block + BLOCK_KEYS);
            tile.kv.pack_block(lanes, &mut work, block, positions);
            for first in (0..rows).step_by(TILE_ROWS) {
                self.add_block(lanes, &mut work, block, first..rows.min(first + TILE_ROWS));
            }
        }
        for first in (0..rows).step_by(TILE_ROWS) {
            let run = first..rows.min(first + TILE_ROWS);
            work.write_divided(lanes, &tile.out, run.clone(), &self.divisors(run));
        }
    }
}

impl PromptTile<'_> {
    /// Takes up to sixteen rows over the keys of a block.
    #[inline(always)]
    fn add_block<S: PanelLanes>(
        &self,
        lanes: S,
        work: &mut PromptWork<'_>,
        block: usize,
        rows: Range<usize>,
    ) {
        // Rows behind the last one see nothing.
        let mut seen = [[0.0; PANEL_ROWS]; 2];
        let (mut start, mut end, mut all_see) = (BLOCK_KEYS, 0, 0..BLOCK_KEYS);
        for (i, row) in rows.clone().enumerate() {
            let visible = self.tile.visible(Segment::History, row);
            let inside = |key: usize| key.clamp(block, block + BLOCK_KEYS) - block;
            let visible = inside(visible.start)..inside(visible.end);
            seen[0][i] = visible.start as f32;
            seen[1][i] = visible.end as f32;
            all_see = all_see.start.max(visible.start)..all_see.end.min(visible.end);
            if !visible.is_empty() {
                (start, end) = (start.min(visible.start), end.max(visible.end));
            }
        }
        let start = start / BLOCK_COLUMNS * BLOCK_COLUMNS;
        let keys = start..end.next_multiple_of(BLOCK_COLUMNS).max(start);
        if keys.is_empty() {
            return;
        }
        let run = rows.start / TILE_ROWS;
        work.score(self.tiles, run, keys.clone());
        let hides = keys.start < all_see.start || all_see.end < keys.end;
        work.weigh_silu(lanes, self.tiles, run, keys, hides.then_some(&seen));
    }

    /// What the sums of up to sixteen rows are divided by.
    fn divisors(&self, rows: Range<usize>) -> [f32; PANEL_ROWS] {
        let mut divisors = [1.0; PANEL_ROWS];
        for (divisor, row) in divisors.iter_mut().zip(rows) {
            *divisor = match self.tile.row_scale {
                RowScale::DivideBy(all) => all,
                RowScale::Multiply(factors) => {
                    1.0 / factors.as_slice::<f32>()[self.tile.tokens.start + row]
                }
            };
        }
        divisors
    }
}

/// Adds what candidates see of each other to what they have summed over the history: after a
/// [`PromptTile`], with its arguments.
pub(super) struct CandidateTerms<'a> {
    pub(super) tile: Tile<'a>,
}

impl Kernel for CandidateTerms<'_> {
    fn reference(self) {
        unreachable!("without vectors there are no matrix units");
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let mut tile = self.tile;
        // Rows of history come first; most tiles of them have nothing to add.
        let Some(first) = (0..tile.rows()).find(|row| !tile.span(*row).candidates.is_empty())
        else {
            return;
        };
        tile.q = tile.q.after(first);
        tile.out = tile.out.after(first);
        tile.tokens.start += first;
        let memory = std::mem::take(&mut tile.scratch);
        let (rows, value_dim) = (tile.rows(), tile.kv.value_dim());
        let (history, memory) = memory.split_at_mut(rows * value_dim);
        for (row, history) in history.chunks_exact_mut(value_dim).enumerate() {
            // SAFETY: one row at a time.
            let out = unsafe { tile.out.get(row) };
            history.copy_from_slice(out);
            out.fill(0.0);
        }
        Work::divide(memory, &tile).add_segment(lanes, &tile, Segment::Candidates);
        for (row, history) in history.chunks_exact(value_dim).enumerate() {
            // SAFETY: one row at a time.
            let out = unsafe { tile.out.get(row) };
            tile.finish(row, out);
            out.iter_mut().zip(history).for_each(|(out, history)| *out += history);
        }
    }
}

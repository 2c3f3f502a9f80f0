//! A tile of a prompt's queries on the matrix units, as [`PromptWork`] says. Blocks of keys start
//! at fixed positions, so here too a query's result depends on key positions alone.

use std::f32::consts::LOG2_E;
use std::ops::Range;

use super::simd::keys_in;
use super::tile::Tile;
use crate::attention::blocks::{BLOCK_KEYS, PromptWork, Sight};
use crate::cpu::lanes::{PanelKernel, PanelLanes, Tiles};
use crate::tiles::{BLOCK_COLUMNS, TILE_ROWS};

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
        let queries = tile.queries();
        let dims = [tile.kv.key_dim(), tile.kv.value_dim()];
        let mut work = PromptWork::divide(memory, queries, dims);
        // Scores are powers of 2.
        work.pack_queries(lanes, &tile.q, queries, tile.scale * LOG2_E);
        let seen = tile.visible(0).start..tile.visible(queries - 1).end;
        let first_block = seen.start / BLOCK_KEYS * BLOCK_KEYS;
        for block in (first_block..seen.end).step_by(BLOCK_KEYS) {
            let positions = seen.start.max(block)..seen.end.min(block + BLOCK_KEYS);
            tile.kv.pack_block(lanes, &mut work, block, positions);
            for first in (0..queries).step_by(TILE_ROWS) {
                self.attend(lanes, &mut work, block, first..queries.min(first + TILE_ROWS));
            }
        }
        for first in (0..queries).step_by(TILE_ROWS) {
            work.write(lanes, &tile.out, first..queries.min(first + TILE_ROWS));
        }
    }
}

impl PromptTile<'_> {
    /// Takes up to sixteen queries over the keys of a block.
    #[inline(always)]
    fn attend<S: PanelLanes>(
        &self,
        lanes: S,
        work: &mut PromptWork<'_>,
        block: usize,
        queries: Range<usize>,
    ) {
        let visible = |query: usize| keys_in(block, self.tile.visible(query));
        let [first, last] = [queries.start, queries.end - 1].map(visible);
        let start = first.start / BLOCK_COLUMNS * BLOCK_COLUMNS;
        let seen = start..last.end.next_multiple_of(BLOCK_COLUMNS).max(start);
        if seen.is_empty() {
            return;
        }
        let run = queries.start / TILE_ROWS;
        work.score(self.tiles, run, seen.clone());
        if first.end < seen.end || seen.start < last.start {
            // Rows behind the last query see nothing.
            let mut sight = Sight { oldest: [0.0; TILE_ROWS], newest: [-1.0; TILE_ROWS] };
            for (i, query) in queries.enumerate() {
                let visible = visible(query);
                sight.oldest[i] = visible.start as f32;
                sight.newest[i] = visible.end as f32 - 1.0;
            }
            sight.hide(lanes.floats(), work.scores(seen.len()), &KEY_NUMBERS[seen.clone()]);
        }
        work.weigh(lanes, self.tiles, run, seen);
    }
}

/// Keys counted from their block's start on.
const KEY_NUMBERS: [f32; BLOCK_KEYS] = {
    let mut numbers = [0.0; BLOCK_KEYS];
    let mut key = 0;
    while key < BLOCK_KEYS {
        numbers[key] = key as f32;
        key += 1;
    }
    numbers
};

//! The two products of attention on the matrix units, for sixteen queries and a block of keys.
//!
//! Queries are the columns of all results, so that vectors of sixteen queries meet no sums across
//! lanes.

use half::bf16;

use crate::cpu::lanes::Tiles;
use crate::tiles::{BLOCK_COLUMNS, PANEL_ROWS, TILE_NUMBERS, TILE_ROWS};

/// Bytes of a tile's row, and of a tile.
const LINE: usize = 64;
const TILE: usize = 2 * TILE_NUMBERS;

/// Numbers of a tile of sums.
const SUMS: usize = TILE_ROWS * PANEL_ROWS;

impl Tiles<'_> {
    /// keys: `[keys / 16, dim tiles]` tiles · queries: dim tiles · scores: `[keys, 16]`, of a
    /// multiple of 32 keys
    #[inline(always)]
    pub(crate) fn score(self, keys: &[bf16], queries: &[bf16], scores: &mut [f32]) {
        let pairs = scores.len() / (2 * SUMS);
        assert!(queries.len().is_multiple_of(TILE_NUMBERS), "whole tiles of queries");
        assert_eq!(scores.len(), pairs * 2 * SUMS, "scores of whole pairs of tiles");
        assert_eq!(keys.len(), pairs * 2 * queries.len(), "tiles of keys");
        let keys = keys.chunks_exact(2 * queries.len());
        for (keys, scores) in keys.zip(scores.chunks_exact_mut(2 * SUMS)) {
            self.zero::<0>();
            self.zero::<1>();
            let (first, second) = keys.split_at(queries.len());
            for at in (0..queries.len()).step_by(TILE_NUMBERS) {
                // SAFETY: from there on each of the three has a tile.
                unsafe {
                    self.load::<6>(queries.as_ptr().add(at).cast(), LINE);
                    self.load::<4>(first.as_ptr().add(at).cast(), LINE);
                    self.dot_bf16::<0, 4, 6>();
                    self.load::<5>(second.as_ptr().add(at).cast(), LINE);
                    self.dot_bf16::<1, 5, 6>();
                }
            }
            let to = scores.as_mut_ptr().cast::<u8>();
            // SAFETY: two tiles of scores are borrowed.
            unsafe {
                self.store::<0>(to, LINE);
                self.store::<1>(to.add(TILE), LINE);
            }
        }
    }

    /// `sums += values * weights` · values: `[keys / 32, dim / 16]` tiles · weights: keys / 32
    /// tiles · sums: `[dim, 16]`
    #[inline(always)]
    pub(crate) fn add_weighted(self, values: &[bf16], weights: &[bf16], sums: &mut [f32]) {
        let columns = sums.len() / SUMS;
        assert!(weights.len().is_multiple_of(TILE_NUMBERS), "whole tiles of weights");
        assert_eq!(sums.len(), columns * SUMS, "whole tiles of sums");
        assert_eq!(values.len(), columns * weights.len(), "tiles of values");
        let sums = sums.as_mut_ptr().cast::<u8>();
        let mut column = 0;
        while column < columns {
            // SAFETY: the columns exist, in the sums and in each row of tiles of values.
            unsafe {
                let sums = sums.add(column * TILE);
                if column + 2 <= columns {
                    self.add_columns::<true>(values, weights, columns, column, sums);
                } else {
                    self.add_columns::<false>(values, weights, columns, column, sums);
                }
            }
            column += 2;
        }
    }

    /// One column of tiles, or two, so that one's products hide the other's loads.
    ///
    /// # Safety
    /// These columns lie at `sums`, and they are among the `columns` of values.
    #[inline(always)]
    unsafe fn add_columns<const TWO: bool>(
        self,
        values: &[bf16],
        weights: &[bf16],
        columns: usize,
        column: usize,
        sums: *mut u8,
    ) {
        let rows = values.chunks_exact(columns * TILE_NUMBERS);
        // SAFETY: the caller's contract.
        unsafe {
            self.load::<0>(sums, LINE);
            if TWO {
                self.load::<1>(sums.add(TILE), LINE);
            }
            for (values, weights) in rows.zip(weights.chunks_exact(TILE_NUMBERS)) {
                let values = values.as_ptr().cast::<u8>().add(column * TILE);
                self.load::<6>(weights.as_ptr().cast(), LINE);
                self.load::<4>(values, LINE);
                self.dot_bf16::<0, 4, 6>();
                if TWO {
                    self.load::<5>(values.add(TILE), LINE);
                    self.dot_bf16::<1, 5, 6>();
                }
            }
            self.store::<0>(sums, LINE);
            if TWO {
                self.store::<1>(sums.add(TILE), LINE);
            }
        }
    }
}

const _: () = assert!(4 * SUMS == TILE && BLOCK_COLUMNS == 2 * PANEL_ROWS);

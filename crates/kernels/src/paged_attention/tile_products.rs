//! The two products of attention on the matrix units, for sixteen queries and a block of keys.

use half::bf16;

use super::simd::BLOCK_KEYS;
use crate::lanes::Tiles;
use crate::strips::{BLOCK_COLUMNS, STRIP_ROWS, TILE_NUMBERS, TILE_ROWS};

/// Bytes of a tile's row, and of a tile.
const LINE: usize = 64;
const TILE: usize = 2 * TILE_NUMBERS;

const _: () = assert!(BLOCK_KEYS == 4 * STRIP_ROWS && BLOCK_KEYS == 2 * BLOCK_COLUMNS);

impl Tiles {
    /// queries: tiles of sixteen · keys: `[query tiles, 4]` tiles · scores: `[16, BLOCK_KEYS]`
    #[inline(always)]
    pub(super) fn score(self, queries: &[bf16], keys: &[bf16], scores: &mut [f32]) {
        assert!(queries.len().is_multiple_of(TILE_NUMBERS), "whole tiles of queries");
        assert_eq!(keys.len(), 4 * queries.len(), "tiles of keys");
        assert_eq!(scores.len(), TILE_ROWS * BLOCK_KEYS, "scores of sixteen queries");
        self.zero::<0>();
        self.zero::<1>();
        self.zero::<2>();
        self.zero::<3>();
        let rows = queries.chunks_exact(TILE_NUMBERS).zip(keys.chunks_exact(4 * TILE_NUMBERS));
        for (queries, keys) in rows {
            let (queries, keys) = (queries.as_ptr().cast::<u8>(), keys.as_ptr().cast::<u8>());
            // SAFETY: one tile of queries and four of keys are borrowed.
            unsafe {
                self.load::<4>(queries, LINE);
                self.load::<5>(keys, LINE);
                self.dot_bf16::<0, 4, 5>();
                self.load::<6>(keys.add(TILE), LINE);
                self.dot_bf16::<1, 4, 6>();
                self.load::<7>(keys.add(2 * TILE), LINE);
                self.dot_bf16::<2, 4, 7>();
                self.load::<5>(keys.add(3 * TILE), LINE);
                self.dot_bf16::<3, 4, 5>();
            }
        }
        let (to, stride) = (scores.as_mut_ptr().cast::<u8>(), 4 * BLOCK_KEYS);
        // SAFETY: four tiles side by side fill the scores.
        unsafe {
            self.store::<0>(to, stride);
            self.store::<1>(to.add(LINE), stride);
            self.store::<2>(to.add(2 * LINE), stride);
            self.store::<3>(to.add(3 * LINE), stride);
        }
    }

    /// `sums += weights * values` · weights: two tiles · values: `[2, columns]` tiles · sums:
    /// `[16, 16 columns]`
    #[inline(always)]
    pub(super) fn add_weighted(self, weights: &[bf16], values: &[bf16], sums: &mut [f32]) {
        assert_eq!(weights.len(), 2 * TILE_NUMBERS, "weights of sixteen queries");
        let columns = values.len() / (2 * TILE_NUMBERS);
        assert_eq!(values.len(), 2 * columns * TILE_NUMBERS, "tiles of values");
        assert_eq!(sums.len(), TILE_ROWS * columns * STRIP_ROWS, "sums of sixteen queries");
        let stride = columns * LINE;
        let (weights, values) = (weights.as_ptr().cast::<u8>(), values.as_ptr().cast::<u8>());
        let sums = sums.as_mut_ptr().cast::<u8>();
        // SAFETY: both tiles of weights are borrowed.
        unsafe {
            self.load::<4>(weights, LINE);
            self.load::<5>(weights.add(TILE), LINE);
        }
        let mut column = 0;
        while column < columns {
            // SAFETY: the columns exist, in the sums and in both rows of tiles of values.
            unsafe {
                let first = values.add(column * TILE);
                let second = first.add(columns * TILE);
                let sums = sums.add(column * LINE);
                if column + 2 <= columns {
                    self.add_two(first, second, sums, stride);
                    column += 2;
                } else {
                    self.add_one(first, second, sums, stride);
                    column += 1;
                }
            }
        }
    }

    /// Two columns at a time, so that one's products hide the other's loads.
    ///
    /// # Safety
    /// Two tiles of values lie at `first` and at `second`, and two of sums at `sums`.
    #[inline(always)]
    unsafe fn add_two(self, first: *const u8, second: *const u8, sums: *mut u8, stride: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            self.load::<0>(sums, stride);
            self.load::<6>(first, LINE);
            self.dot_bf16::<0, 4, 6>();
            self.load::<1>(sums.add(LINE), stride);
            self.load::<7>(first.add(TILE), LINE);
            self.dot_bf16::<1, 4, 7>();
            self.load::<6>(second, LINE);
            self.dot_bf16::<0, 5, 6>();
            self.load::<7>(second.add(TILE), LINE);
            self.dot_bf16::<1, 5, 7>();
            self.store::<0>(sums, stride);
            self.store::<1>(sums.add(LINE), stride);
        }
    }

    /// # Safety
    /// A tile of values lies at `first` and at `second`, and one of sums at `sums`.
    #[inline(always)]
    unsafe fn add_one(self, first: *const u8, second: *const u8, sums: *mut u8, stride: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            self.load::<0>(sums, stride);
            self.load::<6>(first, LINE);
            self.dot_bf16::<0, 4, 6>();
            self.load::<7>(second, LINE);
            self.dot_bf16::<0, 5, 7>();
            self.store::<0>(sums, stride);
        }
    }
}

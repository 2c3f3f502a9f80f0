//! Eight rows of 16-bit integers in the order of the matrix units, which multiply bytes.
//!
//! A word is 256 times its upper byte and its lower one, both signed. A tile also has what its
//! products are scaled by, so that a worker reads one run of memory.

use super::strip_format::{BLOCK_COLUMNS, StripFormat};
use super::word_rows::{Scaled, inverse, largest, padded};
use crate::cpu::lanes::{Lanes, StripKernel, StripLanes};

/// Rows of a tile.
pub(crate) const BYTE_ROWS: usize = 8;

/// 32 columns of eight rows.
#[repr(C, align(64))]
pub(crate) struct ByteTile {
    /// Upper bytes of the rows, then their lower ones; columns in the order of the weights' bytes.
    pub(crate) bytes: [[i8; BLOCK_COLUMNS]; 2 * BYTE_ROWS],
    /// As a [`WordBlock`](super::word_rows::WordBlock) has them.
    pub(crate) scales: [f32; BYTE_ROWS],
    pub(crate) minus_sums: [[i32; 3]; BYTE_ROWS],
    pub(crate) scaled_sums: [[f32; 3]; BYTE_ROWS],
}

/// One of eight rows.
pub(crate) struct ToBytes<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) row: usize,
    pub(crate) tiles: &'a mut [ByteTile],
}

impl StripKernel for ToBytes<'_> {
    type Output = ();

    fn reference(self) {
        unreachable!("without vectors there are no matrix units");
    }

    #[inline(always)]
    fn simd<S: StripLanes>(self, lanes: S) {
        assert_eq!(<S::Floats as Lanes>::COUNT, BLOCK_COLUMNS / 2, "bytes come with wide vectors");
        let (whole, rest) = self.x.as_chunks();
        for (x, tile) in whole.iter().zip(&mut *self.tiles) {
            tile.set(lanes, self.row, x);
        }
        if !rest.is_empty() {
            self.tiles[whole.len()].set(lanes, self.row, &padded(rest));
        }
    }
}

impl ByteTile {
    /// As [`WordBlock`](super::word_rows::WordBlock) has them, without words in between.
    #[inline(always)]
    fn set<S: StripLanes>(&mut self, lanes: S, row: usize, x: &[f32; BLOCK_COLUMNS]) {
        let base = lanes.floats();
        let largest = largest(lanes, x);
        let inverse = base.splat(inverse(largest));
        let (first, second) = x.split_at(BLOCK_COLUMNS / 2);
        let first = base.round(base.mul(base.read(first), inverse));
        let second = base.round(base.mul(base.read(second), inverse));
        let zeros = base.splat(0.0);
        let [first_sum, second_sum, ..] = base.sums([first, second, zeros, zeros]);
        let scaled = Scaled::of(largest, [first_sum, second_sum]);
        self.scales[row] = scaled.scale;
        self.minus_sums[row] = scaled.minus_sums;
        self.scaled_sums[row] = scaled.scaled_sums;
        let (before, from_row) = self.bytes.split_at_mut(BYTE_ROWS + row);
        let (upper, lower) = (before[row].as_chunks_mut().0, from_row[0].as_chunks_mut().0);
        lanes.store_word_bytes(first, &mut upper[0], &mut lower[0]);
        lanes.store_word_bytes(second, &mut upper[1], &mut lower[1]);
    }
}

/// The exact products of words: of upper and of lower bytes with `q`, less the format's offset.
#[inline(always)]
pub(crate) fn join<S: StripLanes, F: StripFormat>(
    lanes: S,
    [upper, lower]: [S::Ints; 2],
    minus_sum: i32,
) -> S::Ints {
    let words = lanes.add_ints(lanes.shift_left(upper, 8), lower);
    match F::OFFSET_BITS {
        Some(bits) => lanes.add_ints(words, lanes.shift_left(lanes.splat_ints(minus_sum), bits)),
        None => words,
    }
}

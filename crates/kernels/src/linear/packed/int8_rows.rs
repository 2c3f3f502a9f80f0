//! Eight rows of 16-bit integers in the order of the matrix units, which multiply bytes.
//!
//! A word is 256 times its upper byte and its lower one, both signed. A tile also has what its
//! products are scaled by, so that a worker reads one run of memory.

use super::int16_rows::{Scaled, inverse, largest, padded};
use super::panel_format::PanelFormat;
use crate::cpu::lanes::{Lanes, PanelKernel, PanelLanes};
use crate::tiles::BLOCK_COLUMNS;

/// Rows of a tile.
pub(crate) const INT8_ROWS: usize = 8;

/// 32 columns of eight rows.
#[repr(C, align(64))]
pub(crate) struct Int8Tile {
    /// Upper bytes of the rows, then their lower ones; columns in the order of the weights' bytes.
    pub(crate) bytes: [[i8; BLOCK_COLUMNS]; 2 * INT8_ROWS],
    /// As a [`Int16Block`](super::int16_rows::Int16Block) has them.
    pub(crate) scales: [f32; INT8_ROWS],
    pub(crate) minus_sums: [[i32; 3]; INT8_ROWS],
    pub(crate) scaled_sums: [[f32; 3]; INT8_ROWS],
}

/// One of eight rows.
pub(crate) struct ToInt8<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) row: usize,
    pub(crate) tiles: &'a mut [Int8Tile],
}

impl PanelKernel for ToInt8<'_> {
    type Output = ();

    fn reference(self) {
        unreachable!("without vectors there are no matrix units");
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(self, lanes: S) {
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

impl Int8Tile {
    /// As [`Int16Block`](super::int16_rows::Int16Block) has them, without words in between.
    #[inline(always)]
    fn set<S: PanelLanes>(&mut self, lanes: S, row: usize, x: &[f32; BLOCK_COLUMNS]) {
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
        let (before, from_row) = self.bytes.split_at_mut(INT8_ROWS + row);
        let (upper, lower) = (before[row].as_chunks_mut().0, from_row[0].as_chunks_mut().0);
        lanes.store_int16_bytes(first, &mut upper[0], &mut lower[0]);
        lanes.store_int16_bytes(second, &mut upper[1], &mut lower[1]);
    }
}

/// The exact products of words: of upper and of lower bytes with `q`, less the format's offset.
#[inline(always)]
pub(crate) fn join<S: PanelLanes, F: PanelFormat>(
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

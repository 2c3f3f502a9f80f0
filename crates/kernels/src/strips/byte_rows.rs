//! Eight rows of 16-bit integers in the order of the matrix units, which multiply bytes.
//!
//! A word is 256 times its upper byte and its lower one, both signed. A tile also has what its
//! products are scaled by, so that a worker reads one run of memory.

use super::strip_format::{BLOCK_COLUMNS, BYTE_ORDER, StripFormat};
use super::word_rows::{WordBlock, padded};
use crate::lanes::{StripKernel, StripLanes};

/// Rows of a tile.
pub(crate) const BYTE_ROWS: usize = 8;

/// 32 columns of eight rows.
#[repr(C, align(64))]
pub(crate) struct ByteTile {
    /// Upper bytes of the rows, then their lower ones; columns in the order of the weights' bytes.
    pub(crate) bytes: [[i8; BLOCK_COLUMNS]; 2 * BYTE_ROWS],
    /// As a [`WordBlock`] has them.
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
        let (whole, rest) = self.x.as_chunks();
        for (x, tile) in whole.iter().zip(&mut *self.tiles) {
            tile.set(self.row, &WordBlock::of(lanes, x));
        }
        if !rest.is_empty() {
            self.tiles[whole.len()].set(self.row, &WordBlock::of(lanes, &padded(rest)));
        }
    }
}

impl ByteTile {
    #[inline(always)]
    fn set(&mut self, row: usize, block: &WordBlock) {
        self.bytes[row] = ordered_bytes(block.words.map(|word| (word + 128) >> 8));
        self.bytes[BYTE_ROWS + row] = ordered_bytes(block.words);
        self.scales[row] = block.scale;
        self.minus_sums[row] = block.minus_sums;
        self.scaled_sums[row] = block.scaled_sums;
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

/// The lower bytes.
#[inline(always)]
fn ordered_bytes(words: [i16; BLOCK_COLUMNS]) -> [i8; BLOCK_COLUMNS] {
    let bytes = words.map(|word| word as i8);
    std::array::from_fn(|i| bytes[i / 8 * 8 + BYTE_ORDER[i % 8]])
}

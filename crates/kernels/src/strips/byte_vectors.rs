//! Products of integer rows with a strip of quantised weights, byte by byte with vectors.
//!
//! Bit for bit what [`word_products`](super::word_products) computes, with half the instructions to
//! unpack weights where the processor multiplies bytes: for few rows, which the matrix units would
//! not pay for, and where there are none.

use super::byte_rows::{BYTE_ROWS, ByteTile, join};
use super::strip_format::{
    BYTE_OPERANDS, ForStripFormat, STRIP_ROWS, StripFormat, StripPointer, for_strip_format,
};
use super::word_products::{AHEAD_BYTES, add_exact, sums_of};
use crate::lanes::{Lanes, StripKernel, StripLanes};
use crate::weight_format::WeightFormat;

pub(crate) struct ByteVectors<'a, T, W> {
    pub(crate) format: WeightFormat,
    pub(crate) strip: &'a [u8],
    pub(crate) rows: usize,
    /// The tiles of eight rows.
    pub(crate) x: T,
    /// Takes a row's products.
    pub(crate) write: W,
}

impl<'x, T, W> StripKernel for ByteVectors<'_, T, W>
where
    T: Fn(usize) -> &'x [ByteTile],
    W: FnMut(usize, &[f32; STRIP_ROWS]),
{
    type Output = ();

    fn reference(self) {
        unreachable!("without vectors rows are not bytes");
    }

    #[inline(always)]
    fn simd<S: StripLanes>(self, lanes: S) {
        for_strip_format(self.format, Vectors(self, lanes)).expect("a quantised format");
    }
}

struct Vectors<'a, T, W, S>(ByteVectors<'a, T, W>, S);

impl<'x, T, W, S: StripLanes> ForStripFormat for Vectors<'_, T, W, S>
where
    T: Fn(usize) -> &'x [ByteTile],
    W: FnMut(usize, &[f32; STRIP_ROWS]),
{
    type Output = ();

    #[inline(always)]
    fn run<F: StripFormat>(self) {
        let Vectors(ByteVectors { strip, rows, x, mut write, .. }, lanes) = self;
        assert_eq!(<S::Floats as Lanes>::COUNT, STRIP_ROWS, "bytes come with wide vectors");
        let mut row = 0;
        while row < rows {
            let tiles = x(row / BYTE_ROWS);
            assert_eq!(strip.len(), F::strip_bytes(tiles.len()), "bytes of a strip");
            // A tile's rows come in these numbers too, so none reaches into the next.
            row += match rows - row {
                1 => some_rows::<S, F, 1>(lanes, strip, tiles, row, &mut write),
                2 | 3 => some_rows::<S, F, 2>(lanes, strip, tiles, row, &mut write),
                _ => some_rows::<S, F, 4>(lanes, strip, tiles, row, &mut write),
            };
        }
    }
}

/// `M` rows from `row` on, all of these tiles; returns `M`.
#[inline(always)]
fn some_rows<S: StripLanes, F: StripFormat, const M: usize>(
    lanes: S,
    strip: &[u8],
    tiles: &[ByteTile],
    row: usize,
    write: &mut impl FnMut(usize, &[f32; STRIP_ROWS]),
) -> usize {
    let base = lanes.floats();
    let (first, strip) = (row % BYTE_ROWS, StripPointer { bytes: strip.as_ptr(), lane: 0 });
    let mut sums = [base.splat(0.0); M];
    for (block, tile) in tiles.iter().enumerate() {
        for line in (0..F::BLOCK_BYTES).step_by(64) {
            base.prefetch(strip.bytes.wrapping_add(F::block_at(block) + AHEAD_BYTES + line));
        }
        for group in 0..F::GROUPS {
            let mut exact = [[lanes.splat_ints(0); 2]; M];
            for t in 0..BYTE_OPERANDS / F::GROUPS {
                let t = group * BYTE_OPERANDS / F::GROUPS + t;
                // SAFETY: the strip has as many blocks as there are tiles.
                let weights = unsafe { strip.byte_operand::<S, F>(lanes, block, t) };
                for (m, [upper, lower]) in exact.iter_mut().enumerate() {
                    let row = first + m;
                    *upper = lanes.dot_bytes(weights, four(lanes, tile, row, t), *upper);
                    let row = BYTE_ROWS + row;
                    *lower = lanes.dot_bytes(weights, four(lanes, tile, row, t), *lower);
                }
            }
            // SAFETY: as above.
            let scale_and_least = unsafe { strip.scale_and_least::<S, F>(lanes, block, group) };
            for (m, halves) in exact.into_iter().enumerate() {
                let (row, sum) = (first + m, sums_of::<F>(group));
                let exact = join::<S, F>(lanes, halves, tile.minus_sums[row][sum]);
                let x = [tile.scales[row], tile.scaled_sums[row][sum]];
                sums[m] = add_exact::<S, F>(lanes, exact, x, scale_and_least, sums[m]);
            }
        }
    }
    for (m, sum) in sums.into_iter().enumerate() {
        let mut products = [0.0; STRIP_ROWS];
        base.write(sum, &mut products);
        write(row + m, &products);
    }
    M
}

/// Four bytes of a tile's row, in every lane.
#[inline(always)]
fn four<S: StripLanes>(lanes: S, tile: &ByteTile, row: usize, t: usize) -> S::Ints {
    // SAFETY: four bytes of the row.
    lanes.splat_ints(unsafe { tile.bytes[row].as_ptr().cast::<i32>().add(t).read_unaligned() })
}

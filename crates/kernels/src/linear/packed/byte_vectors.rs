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
use crate::cpu::lanes::{Lanes, StripKernel, StripLanes};
use crate::linear::weight_format::WeightFormat;

pub(crate) struct ByteVectors<'a, T, W> {
    pub(crate) format: WeightFormat,
    pub(crate) strip: &'a [u8],
    /// One more, which meets the rows' bytes while they are in registers.
    pub(crate) second: Option<&'a [u8]>,
    pub(crate) rows: usize,
    /// The tiles of eight rows.
    pub(crate) x: T,
    /// Takes the products of a row and a strip: which of the two, and the row.
    pub(crate) write: W,
}

impl<'x, T, W> StripKernel for ByteVectors<'_, T, W>
where
    T: Fn(usize) -> &'x [ByteTile],
    W: FnMut(usize, usize, &[f32; STRIP_ROWS]),
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
    W: FnMut(usize, usize, &[f32; STRIP_ROWS]),
{
    type Output = ();

    #[inline(always)]
    fn run<F: StripFormat>(self) {
        let Vectors(ByteVectors { strip, second, rows, x, mut write, .. }, lanes) = self;
        assert_eq!(<S::Floats as Lanes>::COUNT, STRIP_ROWS, "bytes come with wide vectors");
        let mut row = 0;
        while row < rows {
            let tiles = x(row / BYTE_ROWS);
            let mut some = SomeRows { lanes, tiles, row, left: rows - row, write: &mut write };
            row += match second {
                Some(second) => some.run::<F, 2>([strip, second]),
                None => some.run::<F, 1>([strip]),
            };
        }
    }
}

/// Rows from `row` on, and tiles that hold them.
struct SomeRows<'a, S, W> {
    lanes: S,
    tiles: &'a [ByteTile],
    row: usize,
    left: usize,
    write: &'a mut W,
}

impl<S: StripLanes, W: FnMut(usize, usize, &[f32; STRIP_ROWS])> SomeRows<'_, S, W> {
    /// Returns how many rows were taken. A tile's rows come in these numbers too, so none reaches
    /// into the next.
    #[inline(always)]
    fn run<F: StripFormat, const N: usize>(&mut self, strips: [&[u8]; N]) -> usize {
        match self.left {
            1 => self.take::<F, 1, N>(strips),
            2 | 3 => self.take::<F, 2, N>(strips),
            _ => self.take::<F, 4, N>(strips),
        }
    }

    /// `M` rows with `N` strips; returns `M`.
    #[inline(always)]
    fn take<F: StripFormat, const M: usize, const N: usize>(
        &mut self,
        strips: [&[u8]; N],
    ) -> usize {
        let (lanes, first) = (self.lanes, self.row % BYTE_ROWS);
        let base = lanes.floats();
        let strip_bytes = F::strip_bytes(self.tiles.len());
        let ahead = Ahead::of(&strips, strip_bytes);
        for strip in strips {
            assert_eq!(strip.len(), strip_bytes, "bytes of a strip");
        }
        let strips = strips.map(|strip| StripPointer { bytes: strip.as_ptr(), lane: 0 });
        let mut sums = [[base.splat(0.0); M]; N];
        for (block, tile) in self.tiles.iter().enumerate() {
            for strip in strips {
                ahead.ask(base, strip.bytes, F::block_at(block), F::BLOCK_BYTES);
            }
            for group in 0..F::GROUPS {
                // SAFETY: the strips have as many blocks as there are tiles.
                let exact =
                    unsafe { exact::<S, F, M, N>(lanes, strips, (block, group), tile, first) };
                for n in 0..N {
                    // SAFETY: as above.
                    let scale_and_least =
                        unsafe { strips[n].scale_and_least::<S, F>(lanes, block, group) };
                    for m in 0..M {
                        let (row, sum) = (first + m, sums_of::<F>(group));
                        let exact = join::<S, F>(lanes, exact[m][n], tile.minus_sums[row][sum]);
                        let x = [tile.scales[row], tile.scaled_sums[row][sum]];
                        sums[n][m] =
                            add_exact::<S, F>(lanes, exact, x, scale_and_least, sums[n][m]);
                    }
                }
            }
        }
        for (n, sums) in sums.into_iter().enumerate() {
            for (m, sum) in sums.into_iter().enumerate() {
                let mut products = [0.0; STRIP_ROWS];
                base.write(sum, &mut products);
                (self.write)(n, self.row + m, &products);
            }
        }
        M
    }
}

/// The products of upper and lower bytes of `M` rows with a group of columns of `N` strips.
///
/// # Safety
/// The strips are of `F` and have the block.
#[inline(always)]
unsafe fn exact<S: StripLanes, F: StripFormat, const M: usize, const N: usize>(
    lanes: S,
    strips: [StripPointer; N],
    (block, group): (usize, usize),
    tile: &ByteTile,
    first: usize,
) -> [[[S::Ints; 2]; N]; M] {
    let operands = BYTE_OPERANDS / F::GROUPS;
    let mut exact = [[[lanes.splat_ints(0); 2]; N]; M];
    for t in group * operands..(group + 1) * operands {
        let mut weights = [lanes.splat_ints(0); N];
        for (weights, strip) in weights.iter_mut().zip(strips) {
            // SAFETY: the caller's contract.
            *weights = unsafe { strip.byte_operand::<S, F>(lanes, block, t) };
        }
        for (m, exact) in exact.iter_mut().enumerate() {
            let upper = four(lanes, tile, first + m, t);
            let lower = four(lanes, tile, BYTE_ROWS + first + m, t);
            for ([uppers, lowers], weights) in exact.iter_mut().zip(weights) {
                *uppers = lanes.dot_bytes(weights, upper, *uppers);
                *lowers = lanes.dot_bytes(weights, lower, *lowers);
            }
        }
    }
    exact
}

/// What will be read next is asked for meanwhile.
#[derive(Clone, Copy)]
struct Ahead {
    strip_bytes: usize,
    /// Bytes behind a strip that are read at the same time: those of its neighbour.
    skipped: usize,
}

impl Ahead {
    #[inline(always)]
    fn of(strips: &[&[u8]], strip_bytes: usize) -> Self {
        let are_neighbours = match strips {
            [first, second] => first.as_ptr_range().end == second.as_ptr(),
            _ => false,
        };
        Ahead { strip_bytes, skipped: if are_neighbours { strip_bytes } else { 0 } }
    }

    /// What comes a while after `at` in a strip.
    #[inline(always)]
    fn ask<L: Lanes>(self, lanes: L, strip: *const u8, at: usize, bytes: usize) {
        let at = at + AHEAD_BYTES;
        let at = if at < self.strip_bytes { at } else { at + self.skipped };
        lanes.prefetch_bytes(strip.wrapping_add(at), bytes);
    }
}

/// Four bytes of a tile's row, in every lane.
#[inline(always)]
fn four<S: StripLanes>(lanes: S, tile: &ByteTile, row: usize, t: usize) -> S::Ints {
    // SAFETY: four bytes of the row.
    lanes.splat_ints(unsafe { tile.bytes[row].as_ptr().cast::<i32>().add(t).read_unaligned() })
}

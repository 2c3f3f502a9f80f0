//! Products of integer rows with a panel of quantised weights, byte by byte with vectors.
//!
//! Bit for bit what [`int16_products`](super::int16_products) computes, with half the instructions
//! to unpack weights where the processor multiplies int8: for few rows, which the matrix units
//! would not pay for, and where there are none.

use super::format_kernel::FormatKernel;
use super::int8_rows::{INT8_ROWS, Int8Tile, join};
use super::int16_products::{AHEAD_BYTES, add_exact, sums_of};
use super::panel_format::{BYTE_OPERANDS, PanelFormat, PanelPointer};
use crate::cpu::lanes::{Lanes, PanelLanes};
use crate::linear::weight_format::WeightFormat;
use crate::tiles::PANEL_ROWS;

pub(crate) struct Int8Vectors<'a, T, W> {
    pub(crate) format: WeightFormat,
    pub(crate) panel: &'a [u8],
    /// One more, which meets the rows' bytes while they are in registers.
    pub(crate) second: Option<&'a [u8]>,
    pub(crate) rows: usize,
    /// The tiles of eight rows.
    pub(crate) x: T,
    /// Takes the products of a row and a panel: which of the two, and the row.
    pub(crate) write: W,
}

impl<'x, T, W> FormatKernel for Int8Vectors<'_, T, W>
where
    T: Fn(usize) -> &'x [Int8Tile],
    W: FnMut(usize, usize, &[f32; PANEL_ROWS]),
{
    fn format(&self) -> WeightFormat {
        self.format
    }

    fn plain<F: PanelFormat>(self) {
        unreachable!("without vectors rows are not bytes");
    }

    #[inline(always)]
    fn vectors<F: PanelFormat, S: PanelLanes>(self, lanes: S) {
        let Int8Vectors { panel, second, rows, x, mut write, .. } = self;
        assert_eq!(<S::Floats as Lanes>::COUNT, PANEL_ROWS, "bytes come with wide vectors");
        let mut row = 0;
        while row < rows {
            let tiles = x(row / INT8_ROWS);
            let mut some = SomeRows { lanes, tiles, row, left: rows - row, write: &mut write };
            row += match second {
                Some(second) => some.run::<F, 2>([panel, second]),
                None => some.run::<F, 1>([panel]),
            };
        }
    }
}

/// Rows from `row` on, and tiles that hold them.
struct SomeRows<'a, S, W> {
    lanes: S,
    tiles: &'a [Int8Tile],
    row: usize,
    left: usize,
    write: &'a mut W,
}

impl<S: PanelLanes, W: FnMut(usize, usize, &[f32; PANEL_ROWS])> SomeRows<'_, S, W> {
    /// Returns how many rows were taken. A tile's rows come in these numbers too, so none reaches
    /// into the next.
    #[inline(always)]
    fn run<F: PanelFormat, const N: usize>(&mut self, panels: [&[u8]; N]) -> usize {
        match self.left {
            1 => self.take::<F, 1, N>(panels),
            2 | 3 => self.take::<F, 2, N>(panels),
            _ => self.take::<F, 4, N>(panels),
        }
    }

    /// `M` rows with `N` panels; returns `M`.
    #[inline(always)]
    fn take<F: PanelFormat, const M: usize, const N: usize>(
        &mut self,
        panels: [&[u8]; N],
    ) -> usize {
        let (lanes, first) = (self.lanes, self.row % INT8_ROWS);
        let base = lanes.floats();
        let panel_bytes = F::panel_bytes(self.tiles.len());
        let ahead = Ahead::of(&panels, panel_bytes);
        for panel in panels {
            assert_eq!(panel.len(), panel_bytes, "bytes of a panel");
        }
        let panels = panels.map(|panel| PanelPointer { bytes: panel.as_ptr(), lane: 0 });
        let mut sums = [[base.splat(0.0); M]; N];
        for (block, tile) in self.tiles.iter().enumerate() {
            for panel in panels {
                ahead.ask(base, panel.bytes, F::block_at(block), F::BLOCK_BYTES);
            }
            for group in 0..F::GROUPS {
                // SAFETY: the panels have as many blocks as there are tiles.
                let exact =
                    unsafe { exact::<S, F, M, N>(lanes, panels, (block, group), tile, first) };
                for n in 0..N {
                    // SAFETY: as above.
                    let scale_and_least =
                        unsafe { panels[n].scale_and_least::<S, F>(lanes, block, group) };
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
                let mut products = [0.0; PANEL_ROWS];
                base.write(sum, &mut products);
                (self.write)(n, self.row + m, &products);
            }
        }
        M
    }
}

/// The products of upper and lower bytes of `M` rows with a group of columns of `N` panels.
///
/// # Safety
/// The panels are of `F` and have the block.
#[inline(always)]
unsafe fn exact<S: PanelLanes, F: PanelFormat, const M: usize, const N: usize>(
    lanes: S,
    panels: [PanelPointer; N],
    (block, group): (usize, usize),
    tile: &Int8Tile,
    first: usize,
) -> [[[S::Ints; 2]; N]; M] {
    let operands = BYTE_OPERANDS / F::GROUPS;
    let mut exact = [[[lanes.splat_ints(0); 2]; N]; M];
    for t in group * operands..(group + 1) * operands {
        let mut weights = [lanes.splat_ints(0); N];
        for (weights, panel) in weights.iter_mut().zip(panels) {
            // SAFETY: the caller's contract.
            *weights = unsafe { panel.int8_operand::<S, F>(lanes, block, t) };
        }
        for (m, exact) in exact.iter_mut().enumerate() {
            let upper = four(lanes, tile, first + m, t);
            let lower = four(lanes, tile, INT8_ROWS + first + m, t);
            for ([uppers, lowers], weights) in exact.iter_mut().zip(weights) {
                *uppers = lanes.dot_int8(weights, upper, *uppers);
                *lowers = lanes.dot_int8(weights, lower, *lowers);
            }
        }
    }
    exact
}

/// What will be read next is asked for meanwhile.
#[derive(Clone, Copy)]
struct Ahead {
    panel_bytes: usize,
    /// Bytes behind a panel that are read at the same time: those of its neighbour.
    skipped: usize,
}

impl Ahead {
    #[inline(always)]
    fn of(panels: &[&[u8]], panel_bytes: usize) -> Self {
        let are_neighbours = match panels {
            [first, second] => first.as_ptr_range().end == second.as_ptr(),
            _ => false,
        };
        Ahead { panel_bytes, skipped: if are_neighbours { panel_bytes } else { 0 } }
    }

    /// What comes a while after `at` in a panel.
    #[inline(always)]
    fn ask<L: Lanes>(self, lanes: L, panel: *const u8, at: usize, bytes: usize) {
        let at = at + AHEAD_BYTES;
        let at = if at < self.panel_bytes { at } else { at + self.skipped };
        lanes.prefetch_bytes(panel.wrapping_add(at), bytes);
    }
}

/// Four bytes of a tile's row, in every lane.
#[inline(always)]
fn four<S: PanelLanes>(lanes: S, tile: &Int8Tile, row: usize, t: usize) -> S::Ints {
    // SAFETY: four bytes of the row.
    lanes.splat_ints(unsafe { tile.bytes[row].as_ptr().cast::<i32>().add(t).read_unaligned() })
}

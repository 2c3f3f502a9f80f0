//! Products of bf16 rows with two panels of weights, on the matrix units.
//!
//! An output is the sum over blocks of 32 columns in order, each added as the processor defines
//! it. Two tiles of rows and two of weights are loaded for four products, so that loading keeps
//! pace: 64 cycles of products for 64 cache lines, of which the weights' half must come from the
//! first-level cache. So the columns are taken in parts whose weights stay there for many rows,
//! and rows pass by it.

use half::bf16;

use super::pair_sums::PairSums;
use crate::cpu::lanes::Tiles;
use crate::tiles::{PANEL_ROWS, TILE_NUMBERS};

/// Blocks of two panels that leave a quarter of a first-level cache of 48 KiB to sums.
pub(crate) const CACHED_BLOCKS: usize = 18;

/// Bytes of a tile's row, of a tile, and of a row of sums.
const LINE: usize = 64;
const TILE: usize = 2 * TILE_NUMBERS;
const SUMS_ROW: usize = 4 * 2 * PANEL_ROWS;

impl PairSums {
    /// tiles: those of the first sixteen rows, and of sixteen more if there are any · panels: as
    /// many blocks as there are tiles in sixteen rows · more: add to the sums that are there
    #[inline]
    pub(super) fn multiply(
        &mut self,
        units: Tiles<'_>,
        tiles: [&[bf16]; 2],
        panels: [&[bf16]; 2],
        more: bool,
    ) {
        let fits = |numbers: &[bf16]| numbers.len() == tiles[0].len();
        assert!(panels.into_iter().all(fits), "blocks of panels");
        assert!(tiles[1].is_empty() || fits(tiles[1]), "tiles of rows");
        // SAFETY: all slices were checked.
        unsafe {
            if tiles[1].is_empty() {
                self.multiply_rows::<false>(units, tiles, panels, more);
            } else {
                self.multiply_rows::<true>(units, tiles, panels, more);
            }
        }
    }

    /// `BOTH`: there are sixteen more rows.
    ///
    /// # Safety
    /// Each slice has as many blocks as the first, the second tiles only if `BOTH`.
    #[inline(always)]
    unsafe fn multiply_rows<const BOTH: bool>(
        &mut self,
        units: Tiles<'_>,
        tiles: [&[bf16]; 2],
        panels: [&[bf16]; 2],
        more: bool,
    ) {
        let sums = self.rows.as_mut_ptr().cast::<u8>();
        let [x, x_more] = tiles.map(|tiles| tiles.as_ptr().cast::<u8>());
        let [w, w_more] = panels.map(|panel| panel.as_ptr().cast::<u8>());
        let blocks = tiles[0].len() / TILE_NUMBERS;
        // SAFETY: the sums are four tiles, the lower ones used only if `BOTH`; each block has a
        // tile in every slice.
        unsafe {
            let lower = sums.add(16 * SUMS_ROW);
            if more {
                units.load::<0>(sums, SUMS_ROW);
                units.load::<1>(sums.add(LINE), SUMS_ROW);
                if BOTH {
                    units.load::<2>(lower, SUMS_ROW);
                    units.load::<3>(lower.add(LINE), SUMS_ROW);
                }
            } else {
                units.zero::<0>();
                units.zero::<1>();
                units.zero::<2>();
                units.zero::<3>();
            }
            for at in (0..blocks * TILE).step_by(TILE) {
                units.load_once::<4>(x.add(at), LINE);
                units.load::<6>(w.add(at), LINE);
                units.dot_bf16::<0, 4, 6>();
                units.load::<7>(w_more.add(at), LINE);
                units.dot_bf16::<1, 4, 7>();
                if BOTH {
                    units.load_once::<5>(x_more.add(at), LINE);
                    units.dot_bf16::<2, 5, 6>();
                    units.dot_bf16::<3, 5, 7>();
                }
            }
            units.store::<0>(sums, SUMS_ROW);
            units.store::<1>(sums.add(LINE), SUMS_ROW);
            if BOTH {
                units.store::<2>(lower, SUMS_ROW);
                units.store::<3>(lower.add(LINE), SUMS_ROW);
            }
        }
    }
}

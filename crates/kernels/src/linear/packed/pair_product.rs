//! Rows in tiles with two panels of bf16 weights, on the matrix units where there are any.

use half::bf16;

use super::bf16_products::Bf16Products;
use super::pair_sums::{PairSums, SUM_ROWS};
#[cfg(target_arch = "x86_64")]
use super::tile_products::CACHED_BLOCKS;
use crate::cpu::lanes::Simd;
#[cfg(target_arch = "x86_64")]
use crate::cpu::lanes::{TileRow, TileUnits, Tiles};
#[cfg(target_arch = "x86_64")]
use crate::tiles::TILE_NUMBERS;
use crate::tiles::TILE_ROWS;

/// Rows whose sums a worker keeps in its cache, until all parts of them are added.
pub(crate) const CACHED_ROWS: usize = 64;

/// The matrix units, where there are any.
#[cfg(target_arch = "x86_64")]
pub(crate) type Units = Option<TileUnits>;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) type Units = ();

#[cfg(target_arch = "x86_64")]
pub(crate) fn units(simd: Simd) -> Units {
    match simd {
        Simd::Amx(amx) => Some(TileUnits::of(amx)),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn units(_simd: Simd) -> Units {}

/// Where rows come from, and where their sums go.
pub(crate) trait PairRows<'a> {
    /// How many there are.
    fn count(&self) -> usize;
    /// The tiles of sixteen rows, from the `group`-th sixteen on; none behind the last row.
    fn tiles(&self, group: usize) -> &'a [bf16];
    /// Called some time before `finish`, to ask for the memory that it writes.
    #[cfg(target_arch = "x86_64")]
    fn ask_for_outputs(&self, first: usize, count: usize);
    /// The sums of some rows, at most [`SUM_ROWS`].
    fn finish(&self, first: usize, count: usize, sums: &PairSums);
}

/// Up to [`SUM_ROWS`] rows with both panels.
///
/// tiles: of the first sixteen rows, and of those behind them; empty where there are none ·
/// panels: as many blocks as there are tiles in sixteen rows
pub(crate) fn multiply_rows(
    simd: Simd,
    units: &mut Units,
    tiles: [&[bf16]; 2],
    panels: [&[bf16]; 2],
    rows: usize,
    sums: &mut PairSums,
) {
    match units {
        #[cfg(target_arch = "x86_64")]
        Some(units) => sums.multiply(units.tiles(TileRow::Bytes64), tiles, panels, false),
        _ => multiply_by_vectors(simd, sums, tiles, panels, rows),
    }
}

/// panels: as many blocks as there are tiles in sixteen rows · sums: of [`CACHED_ROWS`]
pub(crate) fn multiply_pair<'a>(
    simd: Simd,
    units: &mut Units,
    panels: [&[bf16]; 2],
    rows: &impl PairRows<'a>,
    sums: &mut [PairSums],
) {
    match units {
        #[cfg(target_arch = "x86_64")]
        Some(units) => multiply_by_tiles(units.tiles(TileRow::Bytes64), panels, rows, sums),
        _ => {
            for first in (0..rows.count()).step_by(SUM_ROWS) {
                let count = SUM_ROWS.min(rows.count() - first);
                multiply_by_vectors(simd, &mut sums[0], tiles_from(rows, first), panels, count);
                rows.finish(first, count, &sums[0]);
            }
        }
    }
}

/// The tiles of 32 rows.
fn tiles_from<'a>(rows: &impl PairRows<'a>, row: usize) -> [&'a [bf16]; 2] {
    [0, 1].map(|i| rows.tiles(row / TILE_ROWS + i))
}

#[cfg(target_arch = "x86_64")]
fn multiply_by_tiles<'a>(
    units: Tiles<'_>,
    panels: [&[bf16]; 2],
    rows: &impl PairRows<'a>,
    sums: &mut [PairSums],
) {
    let (count, numbers) = (rows.count(), panels[0].len());
    let segments = (numbers / TILE_NUMBERS).div_ceil(CACHED_BLOCKS);
    let segment_numbers = (numbers / TILE_NUMBERS).div_ceil(segments) * TILE_NUMBERS;
    let cached_rows = if segments == 1 { SUM_ROWS } else { CACHED_ROWS };
    for first in (0..count).step_by(cached_rows) {
        let range = first..count.min(first + cached_rows);
        let steps = || range.clone().step_by(SUM_ROWS);
        for segment in (0..numbers).step_by(segment_numbers) {
            let segment = segment..numbers.min(segment + segment_numbers);
            let panels = panels.map(|panel| &panel[segment.clone()]);
            for (row, sums) in steps().zip(&mut *sums) {
                if segment.end == numbers {
                    rows.ask_for_outputs(row, SUM_ROWS.min(count - row));
                }
                let tiles = tiles_from(rows, row);
                let tiles = tiles.map(|tiles| tiles.get(segment.clone()).unwrap_or(&[]));
                sums.multiply(units, tiles, panels, 0 < segment.start);
            }
        }
        for (row, sums) in steps().zip(&*sums) {
            rows.finish(row, SUM_ROWS.min(count - row), sums);
        }
    }
}

/// Up to 32 rows with both panels.
fn multiply_by_vectors(
    simd: Simd,
    sums: &mut PairSums,
    groups: [&[bf16]; 2],
    panels: [&[bf16]; 2],
    rows: usize,
) {
    for (side, panel) in panels.into_iter().enumerate() {
        for (group, tiles) in groups.into_iter().enumerate() {
            let before = group * TILE_ROWS;
            if rows <= before {
                break;
            }
            simd.run_panels(Bf16Products {
                rows: (rows - before).min(TILE_ROWS),
                tiles,
                panel,
                write: |row, products: &[f32; 16]| sums.set(before + row, side, products),
            });
        }
    }
}

//! Rows of heads on their way to products: as tiles, and as panels of both kinds.

use half::bf16;

use crate::cpu::lanes::Simd;
use crate::tiles::{
    BLOCK_COLUMNS, PANEL_ROWS, TILE_ROWS, ToInputs, ToLanes, ToTiles, tiles_numbers,
};

/// Numbers of rows as tiles or as lanes of panels.
pub(super) const fn packed_numbers(rows: usize, dim: usize) -> usize {
    rows.next_multiple_of(2 * PANEL_ROWS) / PANEL_ROWS * tiles_numbers(dim)
}

/// Numbers of rows as inputs of panels.
pub(super) const fn inputs_numbers(rows: usize, dim: usize) -> usize {
    dim.next_multiple_of(2 * PANEL_ROWS) / PANEL_ROWS * tiles_numbers(rows)
}

/// Sixteen rows after the other, each sixteen as [`tiles_numbers`] has them.
pub(super) fn tiles<'x>(
    simd: Simd,
    rows: usize,
    x: impl Fn(usize) -> &'x [f32],
    dim: usize,
    out: &mut [bf16],
) {
    let groups = out.chunks_exact_mut(tiles_numbers(dim));
    for (first, out) in (0..rows).step_by(TILE_ROWS).zip(groups) {
        let x = |row| x(first + row);
        simd.run_panels(ToTiles { rows: TILE_ROWS.min(rows - first), x, out });
    }
}

/// Panels whose lanes are rows, two for each 32 of them.
pub(super) fn lanes<'x>(
    simd: Simd,
    rows: usize,
    x: impl Fn(usize) -> &'x [f32],
    dim: usize,
    out: &mut [bf16],
) {
    let panels = (0..rows.next_multiple_of(2 * PANEL_ROWS)).step_by(PANEL_ROWS);
    for (first, out) in panels.zip(out.chunks_exact_mut(tiles_numbers(dim))) {
        let x = |row| x(first + row);
        simd.run_panels(ToLanes { rows: PANEL_ROWS.min(rows.saturating_sub(first)), x, out });
    }
}

/// Panels whose inputs are rows and whose lanes are numbers of a head, two for each 32 of them.
pub(super) fn inputs<'x>(
    simd: Simd,
    rows: usize,
    x: impl Fn(usize) -> &'x [f32],
    dim: usize,
    out: &mut [bf16],
) {
    simd.run_panels(ToInputs { rows, x, out: &mut out[..inputs_numbers(rows, dim)] });
}

/// The tiles of the `n`-th 32 of so many rows.
pub(super) fn tiles_at(tiles: &[bf16], n: usize, rows: usize, dim: usize) -> [&[bf16]; 2] {
    let numbers = tiles_numbers(dim);
    [2 * n, 2 * n + 1].map(|group| {
        let is_there = group * TILE_ROWS < rows;
        if is_there { &tiles[group * numbers..(group + 1) * numbers] } else { &[] }
    })
}

/// The `n`-th two of panels with so many inputs.
pub(super) fn panels_at(panels: &[bf16], n: usize, inputs: usize) -> [&[bf16]; 2] {
    let numbers = tiles_numbers(inputs);
    [2 * n, 2 * n + 1].map(|panel| &panels[panel * numbers..(panel + 1) * numbers])
}

/// Runs of 32 among so many.
pub(super) fn runs(count: usize) -> usize {
    count.div_ceil(BLOCK_COLUMNS)
}

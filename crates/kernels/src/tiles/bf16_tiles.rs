//! Rows of numbers rounded to bf16, sixteen at a time in the order of the matrix units.
//!
//! A tile is 16 rows by 32 columns. The tiles of sixteen rows lie one after the other; rows and
//! columns that there are not are 0.

use half::bf16;

use super::tile_shape::{BLOCK_COLUMNS, TILE_NUMBERS, TILE_ROWS};
use crate::cpu::lanes::{Lanes, PanelKernel, PanelLanes};

/// Up to sixteen rows.
pub(crate) struct ToTiles<'a, X> {
    pub(crate) rows: usize,
    /// A row's numbers.
    pub(crate) x: X,
    /// All tiles of these rows.
    pub(crate) out: &'a mut [bf16],
}

impl<'x, X: Fn(usize) -> &'x [f32]> PanelKernel for ToTiles<'_, X> {
    type Output = ();

    fn reference(self) {
        self.out.fill(bf16::ZERO);
        for row in 0..self.rows {
            for (i, x) in (self.x)(row).iter().enumerate() {
                let tile = i / BLOCK_COLUMNS * TILE_NUMBERS;
                self.out[tile + row * BLOCK_COLUMNS + i % BLOCK_COLUMNS] = bf16::from_f32(*x);
            }
        }
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(self, lanes: S) {
        let x = |row| if row < self.rows { (self.x)(row) } else { &[] };
        for row in 0..TILE_ROWS {
            tile_row(lanes, x(row), x(row + 1), row, self.out);
        }
    }
}

/// Puts a row into all tiles of sixteen rows, and prefetches the one that is read next.
#[inline(always)]
pub(crate) fn tile_row<S: PanelLanes>(
    lanes: S,
    x: &[f32],
    next: &[f32],
    row: usize,
    tiles: &mut [bf16],
) {
    for (tile, out) in tiles.chunks_exact_mut(TILE_NUMBERS).enumerate() {
        let start = x.len().min(tile * BLOCK_COLUMNS);
        if let Some(next) = next.get(start) {
            let bytes = size_of::<f32>() * BLOCK_COLUMNS;
            lanes.floats().prefetch_bytes((&raw const *next).cast(), bytes);
        }
        let x = &x[start..x.len().min(start + BLOCK_COLUMNS)];
        narrow(lanes, x, &mut out[row * BLOCK_COLUMNS..(row + 1) * BLOCK_COLUMNS]);
    }
}

/// Rounds `x` to the first numbers of `out`, whose others become 0.
#[inline(always)]
pub(crate) fn narrow<S: PanelLanes>(lanes: S, x: &[f32], out: &mut [bf16]) {
    let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
    for (i, out) in out.chunks_exact_mut(2 * count).enumerate() {
        let x = &x[x.len().min(2 * count * i)..];
        let (first, second) = x.split_at(x.len().min(count));
        write_bf16(lanes, [base.read(first), base.read(second)], out);
    }
}

/// Writes the numbers of both, one after the other, rounded.
#[inline(always)]
pub(crate) fn write_bf16<S: PanelLanes>(
    lanes: S,
    [first, second]: [<S::Floats as Lanes>::Vector; 2],
    out: &mut [bf16],
) {
    assert_eq!(out.len(), 2 * <S::Floats as Lanes>::COUNT, "numbers of two vectors");
    // SAFETY: so many numbers of two bytes are borrowed.
    unsafe { lanes.store_ints(lanes.narrow_bf16(first, second), out.as_mut_ptr().cast()) };
}

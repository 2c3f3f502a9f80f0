//! Dot products of rows with rows, a tile at a time.
//!
//! A product is one chain of fused multiplications per lane, over the columns in order, and one
//! fixed tree over the lanes. Tiles of any height do exactly that for each of their products, so
//! a row's results do not depend on the rows beside it.

use crate::cpu::lanes::Lanes;

/// A row of numbers that comes into vectors.
pub(crate) trait Row: Copy {
    /// How many numbers it has.
    fn len(self) -> usize;
    /// Numbers from `at` on in the first `count <= COUNT` lanes, 0 in the others.
    ///
    /// # Safety
    /// The row has `at + count` numbers.
    unsafe fn load<L: Lanes>(self, lanes: L, at: usize, count: usize) -> L::Vector;
}

impl Row for &[f32] {
    #[inline(always)]
    fn len(self) -> usize {
        self.len()
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(self, lanes: L, at: usize, count: usize) -> L::Vector {
        // SAFETY: the caller's contract.
        unsafe {
            let from = self.as_ptr().add(at);
            if count == L::COUNT { lanes.load(from) } else { lanes.load_part(from, count) }
        }
    }
}

/// Products of one row with up to [`GROUP`] neighbouring rows of weights.
pub(crate) struct Products {
    pub(crate) row: usize,
    /// First of the rows of weights.
    pub(crate) first: usize,
    /// How many of `values` count.
    pub(crate) count: usize,
    pub(crate) values: [f32; GROUP],
}

/// Sums of four vectors are as cheap as of one.
pub(crate) const GROUP: usize = 4;

impl Products {
    /// Writes the products into `out`, the row's products with all weights.
    #[inline(always)]
    pub(crate) fn write(&self, out: &mut [f32]) {
        let out = &mut out[self.first..self.first + self.count];
        // A length known beforehand spares a call of memcpy.
        match out.first_chunk_mut() {
            Some(out) => *out = self.values,
            None => out.copy_from_slice(&self.values[..self.count]),
        }
    }
}

/// Calls `write` until each of the rows `x(0..rows)` has met each row of `weights`, which are
/// `[_, columns]` and dense.
#[inline(always)]
pub(crate) fn products<'a, L: Lanes>(
    lanes: L,
    rows: usize,
    x: impl Fn(usize) -> &'a [f32],
    weights: &[f32],
    columns: usize,
    mut write: impl FnMut(Products),
) {
    let mut row = 0;
    while row < rows {
        let height = (rows - row).min(L::TILE_ROWS);
        // One row alone needs eight independent sums to keep the multipliers busy.
        match height {
            1 => panel::<L, 1, 8>(lanes, row, &x, weights, columns, &mut write),
            2 => panel::<L, 2, 4>(lanes, row, &x, weights, columns, &mut write),
            3 => panel::<L, 3, 4>(lanes, row, &x, weights, columns, &mut write),
            4 => panel::<L, 4, 4>(lanes, row, &x, weights, columns, &mut write),
            5 => panel::<L, 5, 4>(lanes, row, &x, weights, columns, &mut write),
            _ => panel::<L, 6, 4>(lanes, row, &x, weights, columns, &mut write),
        }
        row += height;
    }
}

/// `M` rows from `row` on with all weights, `N` of them at a time.
#[inline(always)]
fn panel<'a, L: Lanes, const M: usize, const N: usize>(
    lanes: L,
    row: usize,
    x: &impl Fn(usize) -> &'a [f32],
    weights: &[f32],
    columns: usize,
    write: &mut impl FnMut(Products),
) {
    let mut tile_x = [&[][..]; M];
    for (i, tile_x) in tile_x.iter_mut().enumerate() {
        *tile_x = x(row + i);
    }
    for (i, chunk) in weights.chunks(N * columns).enumerate() {
        let width = chunk.len() / columns;
        let mut tile_w = [&[][..]; N];
        for (n, tile_w) in tile_w.iter_mut().enumerate() {
            // Past the last row, the last once more; its product is not written again.
            let n = n.min(width - 1);
            *tile_w = &chunk[n * columns..(n + 1) * columns];
        }
        let tile = tile::<L, _, M, N>(lanes, tile_x, tile_w, columns);
        for (m, groups) in tile.iter().enumerate() {
            for (group, &values) in groups.as_chunks().0.iter().enumerate() {
                let before = group * GROUP;
                if before < width {
                    let count = GROUP.min(width - before);
                    write(Products { row: row + m, first: i * N + before, count, values });
                }
            }
        }
    }
}

/// All products of `M` rows with `N` rows, `N` a multiple of [`GROUP`].
#[inline(always)]
pub(crate) fn tile<L: Lanes, R: Row, const M: usize, const N: usize>(
    lanes: L,
    x: [&[f32]; M],
    weights: [R; N],
    columns: usize,
) -> [[f32; N]; M] {
    for row in x {
        assert_eq!(row.len(), columns, "rows of a tile");
    }
    for row in weights {
        assert_eq!(row.len(), columns, "rows of weights");
    }
    let mut sums = [[lanes.splat(0.0); N]; M];
    let whole = columns - columns % L::COUNT;
    for at in (0..whole).step_by(L::COUNT) {
        // SAFETY: `at + COUNT` is at most `columns`, which is every row's length.
        unsafe { multiply(lanes, x, weights, &mut sums, at, L::COUNT) };
    }
    if whole < columns {
        // SAFETY: what is left of every row.
        unsafe { multiply(lanes, x, weights, &mut sums, whole, columns - whole) };
    }
    let mut products = [[0.0; N]; M];
    for (products, sums) in products.iter_mut().zip(&sums) {
        for (products, sums) in products.as_chunks_mut().0.iter_mut().zip(sums.as_chunks().0) {
            *products = lanes.sums(*sums);
        }
    }
    products
}

/// `sums[m][n] += x[m] * weights[n]` over columns `at..at + count`, with `count <= COUNT`.
///
/// # Safety
/// Every row has `at + count` columns.
#[inline(always)]
unsafe fn multiply<L: Lanes, R: Row, const M: usize, const N: usize>(
    lanes: L,
    x: [&[f32]; M],
    weights: [R; N],
    sums: &mut [[L::Vector; N]; M],
    at: usize,
    count: usize,
) {
    let mut inputs = [lanes.splat(0.0); M];
    for m in 0..M {
        // SAFETY: the caller's contract.
        inputs[m] = unsafe { x[m].load(lanes, at, count) };
    }
    for n in 0..N {
        // SAFETY: the caller's contract.
        let weight = unsafe { weights[n].load(lanes, at, count) };
        for m in 0..M {
            sums[m][n] = lanes.mul_add(inputs[m], weight, sums[m][n]);
        }
    }
}

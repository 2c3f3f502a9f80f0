//! Dot products of a few rows with packed weights.
//!
//! When weights are used once or twice, writing them out unpacked and reading them back costs as
//! much as the products. Here they go from their block straight into the sums, in exactly the
//! order of [`products`](super::products): the same bits, for less.

use crate::cpu::lanes::Lanes;
use crate::linear::unpack::block_32::{Block32, ForBlock32};
use crate::tiles::{GROUP, Products};

/// From more rows on, unpacking once for all of them is faster.
pub(super) const MOST_ROWS: usize = 4;

const AHEAD: usize = 2;

/// `rows <= MOST_ROWS` of inputs with all rows of `weights`.
pub(super) struct PackedProducts<'a, L, X, W> {
    pub(super) lanes: L,
    pub(super) rows: usize,
    /// Row of inputs by number, each of `columns`.
    pub(super) x: X,
    /// Whole rows of blocks.
    pub(super) weights: &'a [u8],
    pub(super) columns: usize,
    pub(super) write: W,
}

impl<'x, L: Lanes, X: Fn(usize) -> &'x [f32], W: FnMut(Products)> ForBlock32
    for PackedProducts<'_, L, X, W>
{
    #[inline(always)]
    fn run<F: Block32>(self) {
        match self.rows {
            1 => self.panel::<F, 1>(),
            2 => self.panel::<F, 2>(),
            3 => self.panel::<F, 3>(),
            MOST_ROWS => self.panel::<F, MOST_ROWS>(),
            other => unreachable!("{other} rows"),
        }
    }
}

impl<'x, L: Lanes, X: Fn(usize) -> &'x [f32], W: FnMut(Products)> PackedProducts<'_, L, X, W> {
    #[inline(always)]
    fn panel<F: Block32, const M: usize>(mut self) {
        let x: [&[f32]; M] = std::array::from_fn(&self.x);
        let row_bytes = self.columns / 32 * F::BYTES;
        for (i, chunk) in self.weights.chunks(GROUP * row_bytes).enumerate() {
            let count = chunk.len() / row_bytes;
            let weights: [&[u8]; GROUP] = std::array::from_fn(|n| {
                // Past the last row, the last once more; its product is not written again.
                let n = n.min(count - 1);
                &chunk[n * row_bytes..(n + 1) * row_bytes]
            });
            let tile = tile::<L, F, M>(self.lanes, x, weights, self.columns);
            for (row, values) in tile.into_iter().enumerate() {
                (self.write)(Products { row, first: i * GROUP, count, values });
            }
        }
    }
}

#[inline(always)]
fn tile<L: Lanes, F: Block32, const M: usize>(
    lanes: L,
    x: [&[f32]; M],
    weights: [&[u8]; GROUP],
    columns: usize,
) -> [[f32; GROUP]; M] {
    let blocks = columns / 32;
    assert!(x.iter().all(|row| row.len() == 32 * blocks), "rows of a tile");
    assert!(weights.iter().all(|row| row.len() == F::BYTES * blocks), "weights of a tile");
    let ahead = AHEAD * GROUP * F::BYTES * blocks;
    let mut sums = [[lanes.splat(0.0); GROUP]; M];
    for block in 0..blocks {
        for n in 0..GROUP {
            // SAFETY: the row of weights has this block.
            let bytes =
                unsafe { weights[n].get_unchecked(block * F::BYTES..(block + 1) * F::BYTES) };
            // The hardware does not follow four rows at once: ask for the next group's.
            lanes.prefetch(bytes.as_ptr().wrapping_add(ahead));
            for (v, weight) in lanes.unpack_32::<F>(bytes).as_ref().iter().enumerate() {
                for m in 0..M {
                    // SAFETY: 32 columns of every row belong to this block.
                    let x = unsafe { lanes.load(x[m].as_ptr().add(32 * block + v * L::COUNT)) };
                    sums[m][n] = lanes.mul_add(x, *weight, sums[m][n]);
                }
            }
        }
    }
    let mut products = [[0.0; GROUP]; M];
    for (products, sums) in products.iter_mut().zip(sums) {
        *products = lanes.sums(sums);
    }
    products
}

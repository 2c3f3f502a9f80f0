//! Products of bf16 rows with a panel of bf16 weights, with vectors.
//!
//! A lane is an output: one chain of sums over the columns in order.

use half::bf16;

use super::panel_format::OPERANDS;
use crate::cpu::lanes::{Lanes, PanelKernel, PanelLanes};
use crate::tiles::{BLOCK_COLUMNS, PANEL_ROWS, TILE_NUMBERS};

/// Up to sixteen rows of tiles with sixteen rows of weights.
pub(crate) struct Bf16Products<'a, W> {
    pub(crate) rows: usize,
    /// All tiles of these rows.
    pub(crate) tiles: &'a [bf16],
    /// As many blocks as there are tiles, each 16 pairs of columns by 16 rows.
    pub(crate) panel: &'a [bf16],
    /// Takes a row's products.
    pub(crate) write: W,
}

impl<W: FnMut(usize, &[f32; PANEL_ROWS])> PanelKernel for Bf16Products<'_, W> {
    type Output = ();

    fn reference(mut self) {
        for row in 0..self.rows {
            let products = std::array::from_fn(|lane| {
                let blocks = self.tiles.chunks_exact(TILE_NUMBERS);
                let products = blocks.zip(self.panel.chunks_exact(TILE_NUMBERS)).map(|(x, w)| {
                    let x = &x[row * BLOCK_COLUMNS..(row + 1) * BLOCK_COLUMNS];
                    let weight = |i: usize| w[(i / 2 * PANEL_ROWS + lane) * 2 + i % 2];
                    let product = |(i, x): (usize, &bf16)| x.to_f64() * weight(i).to_f64();
                    x.iter().enumerate().map(product).sum::<f64>()
                });
                products.sum::<f64>() as f32
            });
            (self.write)(row, &products);
        }
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(mut self, lanes: S) {
        assert_eq!(self.tiles.len(), self.panel.len(), "blocks of rows and weights");
        let mut row = 0;
        while row < self.rows {
            row += match self.rows - row {
                1 => self.some_rows::<S, 1>(lanes, row),
                2 | 3 => self.some_rows::<S, 2>(lanes, row),
                4..8 => self.some_rows::<S, 4>(lanes, row),
                _ => self.some_rows::<S, 8>(lanes, row),
            };
        }
    }
}

impl<W: FnMut(usize, &[f32; PANEL_ROWS])> Bf16Products<'_, W> {
    /// `M` rows from `row` on; returns `M`.
    #[inline(always)]
    fn some_rows<S: PanelLanes, const M: usize>(&mut self, lanes: S, row: usize) -> usize {
        let mut products = [[0.0; PANEL_ROWS]; M];
        for lane in (0..PANEL_ROWS).step_by(<S::Floats as Lanes>::COUNT) {
            let mut sums = [lanes.floats().splat(0.0); M];
            let blocks = self.tiles.chunks_exact(TILE_NUMBERS);
            for (x, weights) in blocks.zip(self.panel.chunks_exact(TILE_NUMBERS)) {
                for t in 0..OPERANDS {
                    // SAFETY: both are whole tiles, and the row is one of sixteen.
                    unsafe {
                        let weights = weights.as_ptr().add((t * PANEL_ROWS + lane) * 2);
                        let weights = lanes.load_ints(weights.cast());
                        for (m, sum) in sums.iter_mut().enumerate() {
                            let pair = x.as_ptr().add((row + m) * BLOCK_COLUMNS + 2 * t);
                            let pair = lanes.splat_ints(pair.cast::<i32>().read_unaligned());
                            *sum = lanes.dot_bf16(weights, pair, *sum);
                        }
                    }
                }
            }
            for (products, sum) in products.iter_mut().zip(sums) {
                lanes.floats().write(sum, &mut products[lane..]);
            }
        }
        for (m, products) in products.iter().enumerate() {
            (self.write)(row + m, products);
        }
        M
    }
}

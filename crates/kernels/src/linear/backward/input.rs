//! `d_x += d_out * weight`: a task is a block of tokens, which meets all weights tile by tile.

use std::ops::Range;

use terrace_device::{SharedRows, View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::linear::accumulate::{accumulate, accumulate_plainly};
use crate::linear::matrix::Matrix;
use crate::linear::unpack;

/// Tokens that meet a tile of weights while it is in cache.
pub(super) const BLOCK_TOKENS: usize = 32;
/// Floats of a tile of unpacked weights: a quarter of a megabyte stays in the second-level cache.
const TILE_FLOATS: usize = 1 << 16;

pub(crate) fn input_gradient(ctx: &CpuCtx, d_out: View<'_>, weight: &Matrix, mut d_x: ViewMut<'_>) {
    let [tokens, columns] = d_x.dims();
    assert_eq!(weight.columns(), columns, "columns of the weight of input_gradient");
    assert_eq!(d_out.dims(), [tokens, weight.rows()], "d_out of input_gradient");
    assert!(columns <= CpuCtx::MAX_COLUMNS, "{columns} columns of at most {}", CpuCtx::MAX_COLUMNS);
    let d_x = SharedRows::<f32>::new(&mut d_x);
    ctx.run_with_scratch(tokens.div_ceil(BLOCK_TOKENS), &|scratch, block| {
        let start = block * BLOCK_TOKENS;
        let tokens = start..tokens.min(start + BLOCK_TOKENS);
        ctx.simd.run(Block { d_out, weight, tokens, d_x: &d_x, scratch });
    });
}

struct Block<'a> {
    d_out: View<'a>,
    weight: &'a Matrix,
    tokens: Range<usize>,
    d_x: &'a SharedRows<'a, f32>,
    scratch: &'a mut [f32],
}

impl Block<'_> {
    /// Rows of the weight that are met at a time.
    fn tiles(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (rows, columns) = (self.weight.rows(), self.weight.columns());
        let tile_rows = (TILE_FLOATS / columns.max(1)).clamp(1, 64);
        (0..rows).step_by(tile_rows).map(move |start| start..rows.min(start + tile_rows))
    }

    /// The gradient of one of the block's tokens.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn d_x(&self, token: usize) -> &mut [f32] {
        // SAFETY: the block's rows are this task's alone, and each is asked for once at a time.
        unsafe { self.d_x.row_mut(self.tokens.start + token) }
    }

    #[inline(always)]
    fn d_out(&self, token: usize) -> &[f32] {
        self.d_out.row(self.tokens.start + token)
    }
}

impl Kernel for Block<'_> {
    fn reference(mut self) {
        let (format, columns) = (self.weight.format(), self.weight.columns());
        let scratch = std::mem::take(&mut self.scratch);
        for tile in self.tiles() {
            let weights = &mut scratch[..tile.len() * columns];
            unpack::reference::unpack(format, self.weight.rows_bytes(tile.clone()), weights);
            accumulate_plainly(
                self.tokens.len(),
                tile.len(),
                |token, k| self.d_out(token)[tile.start + k],
                |k| &weights[k * columns..(k + 1) * columns],
                |token| self.d_x(token),
            );
        }
    }

    // No closure of it has instructions of the level: it would be compiled without them.
    #[inline(always)]
    fn simd<L: Lanes>(mut self, lanes: L) {
        let (format, columns) = (self.weight.format(), self.weight.columns());
        let scratch = std::mem::take(&mut self.scratch);
        for tile in self.tiles() {
            let weights = match self.weight.rows_in_place(tile.clone()) {
                Some(weights) => weights,
                None => {
                    let weights = &mut scratch[..tile.len() * columns];
                    lanes.unpack(format, self.weight.rows_bytes(tile.clone()), weights);
                    &*weights
                }
            };
            accumulate(
                lanes,
                self.tokens.len(),
                tile.len(),
                |token, k| self.d_out(token)[tile.start + k],
                |k| &weights[k * columns..(k + 1) * columns],
                |token| self.d_x(token),
            );
        }
    }
}

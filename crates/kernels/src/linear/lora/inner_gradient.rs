//! `d_inner = scale * d_out * b`: a task is a block of tokens.

use std::ops::Range;

use terrace_device::{SharedRows, View, ViewMut};

use super::reference;
use super::transposed::transposed;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::tiles::products;

const BLOCK_TOKENS: usize = 128;
/// Numbers of the second matrix that are columns at a time.
const TRANSPOSED: usize = 1 << 16;

/// d_out: f32 `[tokens, rows]` · b: `[rows, rank]` · d_inner: f32 `[tokens, rank]`
pub(super) fn inner_gradient(
    ctx: &CpuCtx,
    d_out: View<'_>,
    b: &[f32],
    scale: f32,
    mut d_inner: ViewMut<'_>,
) {
    let [tokens, _] = d_out.dims();
    let d_inner = SharedRows::<f32>::new(&mut d_inner);
    ctx.run_with_scratch(tokens.div_ceil(BLOCK_TOKENS), &|scratch, block| {
        let start = block * BLOCK_TOKENS;
        let tokens = start..tokens.min(start + BLOCK_TOKENS);
        ctx.simd.run(Block { d_out, b, scale, tokens, d_inner: &d_inner, scratch });
    });
}

struct Block<'a> {
    d_out: View<'a>,
    b: &'a [f32],
    scale: f32,
    tokens: Range<usize>,
    d_inner: &'a SharedRows<'a, f32>,
    scratch: &'a mut [f32],
}

impl Block<'_> {
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn d_inner(&self, token: usize) -> &mut [f32] {
        // SAFETY: these tokens are this task's, and each is asked for once at a time.
        unsafe { self.d_inner.row_mut(self.tokens.start + token) }
    }
}

impl Kernel for Block<'_> {
    fn reference(self) {
        for token in 0..self.tokens.len() {
            let d_out = self.d_out.row(self.tokens.start + token);
            reference::inner_gradient(d_out, self.b, self.scale, self.d_inner(token));
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(mut self, lanes: L) {
        let (rank, [_, rows]) = (self.d_inner.width(), self.d_out.dims());
        let scratch = std::mem::take(&mut self.scratch);
        (0..self.tokens.len()).for_each(|token| self.d_inner(token).fill(0.0));
        let step = (TRANSPOSED / rank).max(1);
        for start in (0..rows).step_by(step) {
            let part = start..rows.min(start + step);
            let b = transposed(&self.b[start * rank..part.end * rank], rank, scratch);
            let d_out = |token: usize| &self.d_out.row(self.tokens.start + token)[part.clone()];
            products(lanes, self.tokens.len(), d_out, b, part.len(), |products| {
                let d_inner = &mut self.d_inner(products.row)[products.first..];
                let values = &products.values[..products.count];
                d_inner.iter_mut().zip(values).for_each(|(d, value)| *d += self.scale * value);
            });
        }
    }
}

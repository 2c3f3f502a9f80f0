//! A branch beside a product that is there.

use std::ops::Range;

use terrace_device::{SharedRows, View, ViewMut};

use super::branch::LoraBranch;
use super::reference;
use super::transposed::transposed;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::linear::accumulate::accumulate;
use crate::linear::matmul::project_stacked;

/// Outputs and tokens of a task.
const BLOCK_ROWS: usize = 64;
const BLOCK_TOKENS: usize = 256;

/// `out += scale * (x * a^T) * b^T`, and `inner`.
pub(crate) fn add_branch(
    ctx: &CpuCtx,
    x: View<'_>,
    branch: LoraBranch<'_>,
    mut inner: ViewMut<'_>,
    mut out: ViewMut<'_>,
) {
    let ([tokens, columns], [out_tokens, rows]) = (x.dims(), out.dims());
    assert_eq!(out_tokens, tokens, "out of a branch");
    branch.check(tokens, columns, rows, inner.as_view());
    project_stacked(ctx, x, branch.a.storage().weights(), inner.reborrow());
    let b = branch.b.only_matrix().rows_in_place(0..rows).expect("a branch is of f32");
    let (inner, scale) = (inner.as_view(), branch.scale);
    let out = SharedRows::<f32>::new(&mut out);
    let blocks = rows.div_ceil(BLOCK_ROWS);
    ctx.run_with_scratch(blocks * tokens.div_ceil(BLOCK_TOKENS), &|scratch, task| {
        let (row, token) = (task % blocks * BLOCK_ROWS, task / blocks * BLOCK_TOKENS);
        let rows = row..rows.min(row + BLOCK_ROWS);
        let tokens = token..tokens.min(token + BLOCK_TOKENS);
        ctx.simd.run(Block { inner, b, scale, rows, tokens, out: &out, scratch });
    });
}

/// Some outputs of some tokens.
struct Block<'a> {
    inner: View<'a>,
    b: &'a [f32],
    scale: f32,
    rows: Range<usize>,
    tokens: Range<usize>,
    out: &'a SharedRows<'a, f32>,
    scratch: &'a mut [f32],
}

impl Block<'_> {
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn out(&self, token: usize) -> &mut [f32] {
        // SAFETY: these outputs of these tokens are this task's, and each is asked for once at a
        // time.
        unsafe { self.out.part_mut(self.tokens.start + token, self.rows.clone()) }
    }

    #[inline(always)]
    fn inner(&self, token: usize) -> &[f32] {
        self.inner.row(self.tokens.start + token)
    }

    fn rank(&self) -> usize {
        let [_, rank] = self.inner.dims();
        rank
    }
}

impl Kernel for Block<'_> {
    fn reference(self) {
        let b = &self.b[self.rows.start * self.rank()..];
        for token in 0..self.tokens.len() {
            reference::add_product(self.inner(token), b, self.scale, self.out(token));
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(mut self, lanes: L) {
        let (rank, width) = (self.rank(), self.rows.len());
        let scratch = std::mem::take(&mut self.scratch);
        let b = transposed(&self.b[self.rows.start * rank..self.rows.end * rank], rank, scratch);
        accumulate(
            lanes,
            self.tokens.len(),
            rank,
            |token, k| self.scale * self.inner(token)[k],
            |k| &b[k * width..(k + 1) * width],
            |token| self.out(token),
        );
    }
}

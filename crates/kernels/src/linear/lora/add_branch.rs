//! A branch beside a product that is there.

use terrace_device::{SharedRows, View, ViewMut};

use super::branch::LoraBranch;
use super::reference;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::linear::matmul::project_stacked;

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
    let (inner, rank) = (inner.as_view(), branch.rank());
    let out = SharedRows::<f32>::new(&mut out);
    ctx.for_rows(tokens, rows * rank, &|token| {
        // SAFETY: each row is one task's.
        let out = unsafe { out.row_mut(token) };
        reference::add_product(inner.row(token), b, branch.scale, out);
    });
}

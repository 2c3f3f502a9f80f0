//! What a branch's gradients are made of the output's.

use terrace_device::{View, ViewMut};

use super::branch::LoraBranch;
use super::inner_gradient::inner_gradient;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::linear::backward::{input_gradient, weight_gradient};

/// All f32; `d_inner` is written, the others are added to.
pub struct LoraGradients<'a> {
    /// `[tokens, columns]`
    pub x: View<'a>,
    /// `[tokens, rank]`, as the forward op left it.
    pub inner: View<'a>,
    /// `[tokens, rows]`
    pub d_out: View<'a>,
    /// `[tokens, rank]`
    pub d_inner: ViewMut<'a>,
    /// `[tokens, columns]`
    pub d_x: ViewMut<'a>,
    /// `[rank, columns]`
    pub d_a: ViewMut<'a>,
    /// `[rows, rank]`
    pub d_b: ViewMut<'a>,
}

pub(crate) fn lora_gradients(ctx: &CpuCtx, branch: LoraBranch<'_>, args: LoraGradients<'_>) {
    let LoraGradients { x, inner, d_out, mut d_inner, d_x, d_a, d_b } = args;
    let ([tokens, columns], [_, rows]) = (x.dims(), d_out.dims());
    branch.check(tokens, columns, rows, inner);
    branch.check(tokens, columns, rows, d_inner.as_view());
    weight_gradient(ctx, d_out, inner, branch.scale, d_b);
    let b = branch.b.only_matrix().rows_in_place(0..rows).expect("a branch is of f32");
    inner_gradient(ctx, d_out, b, branch.scale, d_inner.reborrow());
    let d_inner = d_inner.into_view();
    weight_gradient(ctx, d_inner, x, 1.0, d_a);
    input_gradient(ctx, d_inner, branch.a.only_matrix(), d_x);
}

//! The products of a model that is trained, in the arithmetic of the ops: f32, or rows and weights
//! rounded to bf16. Weights lie as in their file either way.

use terrace_device::{View, ViewMut};

use super::backward;
use super::linear::Linear;
use super::matmul::project_stacked;
use super::rounded;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::cpu_options::Compute;

/// `out = x * weight^T + bias` · x: f32 `[tokens, columns]` · out: f32 `[tokens, rows]`
pub(crate) fn project(ctx: &CpuCtx, x: View<'_>, linear: &Linear, out: ViewMut<'_>) {
    let weights = linear.storage().weights();
    match (ctx.compute(), weights) {
        (Compute::Fast, [weight]) => rounded::project(ctx, x, weight, out),
        _ => project_stacked(ctx, x, weights, out),
    }
}

/// `d_x += d_out * weight` · d_out: f32 `[tokens, rows]` · d_x: f32 `[tokens, columns]`
pub(crate) fn input_gradient(ctx: &CpuCtx, d_out: View<'_>, linear: &Linear, d_x: ViewMut<'_>) {
    let weight = linear.only_matrix();
    match ctx.compute() {
        Compute::Fast => rounded::input_gradient(ctx, d_out, weight, d_x),
        Compute::F32 => backward::input_gradient(ctx, d_out, weight, d_x),
    }
}

//! Chosen rows, each divided by its length: what scores and heads are computed from.
//!
//! x: f32 `[tokens, dim]` · rows: i32 `[picked]` · out: act `[picked, dim]`. A length below `least`
//! counts as `least`.
//!
//! Roofline: 8 bytes and 3 flops per element of the few chosen rows.

pub(crate) mod cuda;

use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;

pub(crate) fn unit_rows(ctx: &CpuCtx, x: View<'_>, rows: View<'_>, least: f32, out: ViewMut<'_>) {
    let [_, dim] = x.dims();
    let [picked] = rows.dims();
    assert_eq!(out.dims(), [picked, dim], "out of unit_rows");
    let rows = rows.as_slice::<i32>();
    ctx.write_rows(out, |i, out| reference(x.row(rows[i] as usize), least, out));
}

/// One row; the sum is carried in f64.
pub(crate) fn reference(x: &[f32], least: f32, out: &mut [f32]) {
    let length = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt() as f32;
    // In this order a NaN stays one.
    let length = if length < least { least } else { length };
    out.iter_mut().zip(x).for_each(|(out, x)| *out = x / length);
}

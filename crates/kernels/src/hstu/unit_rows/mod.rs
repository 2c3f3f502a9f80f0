//! Chosen rows, each divided by its length: what scores and heads are computed from.
//!
//! x: f32 `[tokens, dim]` · rows: i32 `[picked]` · out: act or f32 `[picked, dim]`. A length below
//! `least` counts as `least`.
//!
//! Roofline: 8 bytes and 3 flops per element of the few chosen rows.

pub(crate) mod cuda;
pub(crate) mod reference;

use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;

pub(crate) fn unit_rows(ctx: &CpuCtx, x: View<'_>, rows: View<'_>, least: f32, out: ViewMut<'_>) {
    let [_, dim] = x.dims();
    let [picked] = rows.dims();
    assert_eq!(out.dims(), [picked, dim], "out of unit_rows");
    let rows = rows.as_slice::<i32>();
    ctx.write_rows(out, |i, out| reference::unit_row(x.row(rows[i] as usize), least, out));
}

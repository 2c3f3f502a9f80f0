//! Each column times its own factor, and each column plus its own number.
//!
//! x, out, d_x, d_out: f32 `[rows, dim]` · factors, d_factors, added: f32 `[dim]`
//!
//! Roofline: 8 bytes and a flop per element; bound by memory bandwidth.

pub(crate) mod cuda;
pub(crate) mod reference;

use terrace_device::{SharedRows, View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;

/// Columns of a task that sums over rows.
const STRIP: usize = 64;

/// `out = x * factors`
pub(crate) fn scale_columns(ctx: &CpuCtx, x: View<'_>, factors: View<'_>, out: ViewMut<'_>) {
    let [rows, dim] = x.dims();
    assert_eq!(out.dims(), [rows, dim], "out of scale_columns");
    assert_eq!(factors.dims(), [dim], "factors of scale_columns");
    let factors = factors.as_slice();
    ctx.write_rows(out, |row, out| reference::scale(x.row(row), factors, out));
}

/// `x += added`
pub(crate) fn add_to_columns(ctx: &CpuCtx, x: ViewMut<'_>, added: View<'_>) {
    let [_, dim] = x.dims();
    assert_eq!(added.dims(), [dim], "added of add_to_columns");
    let added = added.as_slice::<f32>();
    ctx.write_rows::<f32>(x, |_, x| x.iter_mut().zip(added).for_each(|(x, added)| *x += added));
}

/// `d_factors += Σ_rows d_out * x`
pub(crate) fn factor_gradients(ctx: &CpuCtx, x: View<'_>, d_out: View<'_>, d_factors: ViewMut<'_>) {
    let [rows, dim] = x.dims();
    assert_eq!(d_out.dims(), [rows, dim], "d_out of factor_gradients");
    let mut d_factors = d_factors.reshape([1, dim]);
    let d_factors = SharedRows::<f32>::new(&mut d_factors);
    ctx.pool.run(dim.div_ceil(STRIP), &|_, strip| {
        let columns = strip * STRIP..dim.min((strip + 1) * STRIP);
        // SAFETY: each strip is one task's.
        let sums = unsafe { d_factors.part_mut(0, columns.clone()) };
        for row in 0..rows {
            let (x, d_out) = (x.row::<f32>(row), d_out.row::<f32>(row));
            reference::add_products(&x[columns.clone()], &d_out[columns.clone()], sums);
        }
    });
}

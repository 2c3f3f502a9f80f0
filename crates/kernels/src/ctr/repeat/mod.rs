//! Each number of a row several times, or each row several times.
//!
//! x: act `[rows, dim]` · out: act `[rows, factor * dim]` or `[factor * rows, dim]`
//!
//! Roofline: 4 bytes per element of `out`; bound by memory bandwidth.

pub(crate) mod reference;

use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;

/// What is repeated, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeated {
    Numbers,
    Rows,
}

pub(crate) fn repeat(ctx: &CpuCtx, x: View<'_>, what: Repeated, out: ViewMut<'_>) {
    let ([rows, dim], [out_rows, out_dim]) = (x.dims(), out.dims());
    match what {
        Repeated::Numbers => {
            assert!(out_rows == rows && out_dim.is_multiple_of(dim), "out of repeat");
            let factor = out_dim / dim;
            ctx.write_rows(out, |row, out| reference::numbers(x.row(row), factor, out));
        }
        Repeated::Rows => {
            assert!(out_dim == dim && out_rows.is_multiple_of(rows), "out of repeat");
            let factor = out_rows / rows;
            ctx.write_rows::<f32>(out, |row, out| out.copy_from_slice(x.row(row / factor)));
        }
    }
}

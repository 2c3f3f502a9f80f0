//! The same numbers in the same order, in rows of another length.
//!
//! x: f32 or act `[rows, width]` · out: f32 or act `[_, _]` of as many numbers; rows of both may be
//! strided. With equal widths it copies rows to where they shall lie.
//!
//! Roofline: 8 bytes per element; bound by memory bandwidth.

pub(crate) mod reference;

use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;

pub(crate) fn arrange(ctx: &CpuCtx, x: View<'_>, out: ViewMut<'_>) {
    let ([rows, width], [out_rows, out_width]) = (x.dims(), out.dims());
    assert_eq!(rows * width, out_rows * out_width, "numbers of arrange");
    ctx.write_rows::<f32>(out, |row, out| {
        let mut at = row * out_width;
        let mut rest = out;
        while !rest.is_empty() {
            let from = &x.row::<f32>(at / width)[at % width..];
            let count = from.len().min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&from[..count]);
            (at, rest) = (at + count, later);
        }
    });
}

//! Which pairs of positions of two sequences both exist: 1 where row and column are below the
//! sequences' lengths, else 0.
//!
//! from, to: act `[samples, 1]`, the lengths, of which the whole number counts · out: act
//! `[samples, rows * columns]`
//!
//! Roofline: 4 bytes per element; bound by memory bandwidth.

pub(crate) mod reference;

use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;

#[derive(Clone, Copy)]
pub struct SequenceMaskArgs<'a> {
    pub from: View<'a>,
    pub to: View<'a>,
    pub columns: usize,
}

pub(crate) fn sequence_mask(ctx: &CpuCtx, args: &SequenceMaskArgs<'_>, out: ViewMut<'_>) {
    let SequenceMaskArgs { from, to, columns } = *args;
    let [samples, width] = out.dims();
    assert_eq!([from.dims(), to.dims()], [[samples, 1]; 2], "lengths of sequence_mask");
    assert!(width.is_multiple_of(columns), "out of sequence_mask");
    ctx.write_rows(out, |row, out| {
        reference::mask(from.row(row)[0], to.row(row)[0], columns, out);
    });
}

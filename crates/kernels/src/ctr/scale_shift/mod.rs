//! Each column times a number of its own, and another added: `x * scale + shift`.
//!
//! x: act `[rows, dim]` · scale, shift: f32 `[dim]` · out: act `[rows, dim]`
//!
//! Roofline: 8 bytes and 2 flops per element; bound by memory bandwidth.

pub(crate) mod cuda;
pub(crate) mod reference;

use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::linear::vector::Vector;

#[derive(Clone, Copy)]
pub struct ScaleShiftArgs<'a> {
    pub x: View<'a>,
    pub scale: &'a Vector,
    pub shift: &'a Vector,
}

pub(crate) fn scale_shift(ctx: &CpuCtx, args: &ScaleShiftArgs<'_>, out: ViewMut<'_>) {
    let [rows, dim] = args.x.dims();
    assert_eq!(out.dims(), [rows, dim], "out of scale_shift");
    let [scale, shift]: [&[f32]; 2] =
        [args.scale, args.shift].map(|vector| vector.view().as_slice());
    assert_eq!([scale.len(), shift.len()], [dim; 2], "columns of scale_shift");
    ctx.write_rows(out, |row, out| {
        ctx.simd.run(ScaleShift { x: args.x.row(row), scale, shift, out });
    });
}

struct ScaleShift<'a> {
    x: &'a [f32],
    scale: &'a [f32],
    shift: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for ScaleShift<'_> {
    fn reference(self) {
        reference::scale_shift(self.x, self.scale, self.shift, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let columns = self.scale.chunks(L::COUNT).zip(self.shift.chunks(L::COUNT));
        let columns = self.x.chunks(L::COUNT).zip(columns);
        for (out, (x, (scale, shift))) in self.out.chunks_mut(L::COUNT).zip(columns) {
            let product = lanes.mul_add(lanes.read(x), lanes.read(scale), lanes.read(shift));
            lanes.write(product, out);
        }
    }
}

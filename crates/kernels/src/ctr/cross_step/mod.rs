//! What ends a layer of a cross network whose weights are matrices: `out = first * product + x`.
//!
//! first, the network's input, product, with its bias, and x, the layer's input: act
//! `[rows, dim]` · out: act `[rows, dim]`
//!
//! Roofline: 16 bytes and 2 flops per element; bound by memory bandwidth.

pub(crate) mod cuda;
pub(crate) mod reference;

use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

#[derive(Clone, Copy)]
pub struct CrossStepArgs<'a> {
    pub first: View<'a>,
    pub product: View<'a>,
    pub x: View<'a>,
}

pub(crate) fn cross_step(ctx: &CpuCtx, args: &CrossStepArgs<'_>, out: ViewMut<'_>) {
    let CrossStepArgs { first, product, x } = *args;
    for input in [first, product, x] {
        assert_eq!(input.dims::<2>(), out.dims::<2>(), "inputs of cross_step");
    }
    ctx.write_rows(out, |row, out| {
        let [first, product, x] = [first, product, x].map(|input| input.row(row));
        ctx.simd.run(Step { first, product, x, out });
    });
}

struct Step<'a> {
    first: &'a [f32],
    product: &'a [f32],
    x: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Step<'_> {
    fn reference(self) {
        reference::cross_step(self.first, self.product, self.x, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let inputs = self.first.chunks(L::COUNT).zip(self.product.chunks(L::COUNT));
        let inputs = inputs.zip(self.x.chunks(L::COUNT));
        for (out, ((first, product), x)) in self.out.chunks_mut(L::COUNT).zip(inputs) {
            let step = lanes.mul_add(lanes.read(first), lanes.read(product), lanes.read(x));
            lanes.write(step, out);
        }
    }
}

//! Each number of a row times a vector of its own: `out[i * dim + j] = x[i] * weights[i, j]`.
//!
//! x: act `[rows, count]` · weights: f32 `[count * dim]` · out: act `[rows, count * dim]`
//!
//! Roofline: 4 bytes written and one flop per element of `out`; bound by memory bandwidth.

pub(crate) mod reference;

use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::linear::vector::Vector;

pub(crate) fn weight_multiply(ctx: &CpuCtx, x: View<'_>, weights: &Vector, out: ViewMut<'_>) {
    let ([rows, count], weights) = (x.dims(), weights.view().as_slice());
    assert!(weights.len().is_multiple_of(count), "weights of weight_multiply");
    assert_eq!(out.dims(), [rows, weights.len()], "out of weight_multiply");
    ctx.write_rows(out, |row, out| ctx.simd.run(Multiply { x: x.row(row), weights, out }));
}

struct Multiply<'a> {
    x: &'a [f32],
    weights: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Multiply<'_> {
    fn reference(self) {
        reference::weight_multiply(self.x, self.weights, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let Multiply { x, weights, out } = self;
        let dim = weights.len() / x.len();
        if dim == 1 {
            let inputs = x.chunks(L::COUNT).zip(weights.chunks(L::COUNT));
            for (out, (x, weights)) in out.chunks_mut(L::COUNT).zip(inputs) {
                lanes.write(lanes.mul(lanes.read(x), lanes.read(weights)), out);
            }
            return;
        }
        let vectors = weights.chunks_exact(dim).zip(out.chunks_exact_mut(dim));
        for (x, (weights, out)) in x.iter().zip(vectors) {
            let x = lanes.splat(*x);
            for (out, weights) in out.chunks_mut(L::COUNT).zip(weights.chunks(L::COUNT)) {
                lanes.write(lanes.mul(x, lanes.read(weights)), out);
            }
        }
    }
}

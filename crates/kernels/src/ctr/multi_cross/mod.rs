//! All layers of a cross network whose weights are vectors:
//! `x[l + 1] = x[0] * (x[l] . weight[l]) + x[l] + bias[l]`.
//!
//! x: act `[rows, dim]` · weights, biases: f32 `[layers * dim]` · out: act `[rows, dim]`, the last
//! layer's.
//!
//! Roofline: a row stays in cache for all layers; 6 flops per element and layer, bound by reading
//! weights and biases from cache.

pub(crate) mod reference;

use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::linear::vector::Vector;

#[derive(Clone, Copy)]
pub struct MultiCrossArgs<'a> {
    pub x: View<'a>,
    pub weights: &'a Vector,
    pub biases: &'a Vector,
}

pub(crate) fn multi_cross(ctx: &CpuCtx, args: &MultiCrossArgs<'_>, out: ViewMut<'_>) {
    let [rows, dim] = args.x.dims();
    assert_eq!(out.dims(), [rows, dim], "out of multi_cross");
    let [weights, biases]: [&[f32]; 2] =
        [args.weights, args.biases].map(|vector| vector.view().as_slice());
    assert!(
        weights.len() == biases.len() && weights.len().is_multiple_of(dim),
        "weights of layers"
    );
    ctx.write_rows(out, |row, out| {
        ctx.simd.run(Cross { x: args.x.row(row), weights, biases, out });
    });
}

struct Cross<'a> {
    x: &'a [f32],
    weights: &'a [f32],
    biases: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Cross<'_> {
    fn reference(self) {
        reference::multi_cross(self.x, self.weights, self.biases, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let Cross { x, weights, biases, out } = self;
        let dim = x.len();
        out.copy_from_slice(x);
        for (weights, biases) in weights.chunks_exact(dim).zip(biases.chunks_exact(dim)) {
            let mut sums = lanes.splat(0.0);
            for (out, weights) in out.chunks(L::COUNT).zip(weights.chunks(L::COUNT)) {
                sums = lanes.mul_add(lanes.read(out), lanes.read(weights), sums);
            }
            let product = lanes.splat(lanes.sum(sums));
            let vectors = x.chunks(L::COUNT).zip(biases.chunks(L::COUNT));
            for (out, (x, biases)) in out.chunks_mut(L::COUNT).zip(vectors) {
                let crossed = lanes.mul_add(lanes.read(x), product, lanes.read(out));
                lanes.write(lanes.add(crossed, lanes.read(biases)), out);
            }
        }
    }
}

//! One row over vectors: one chain of squares per lane, then one tree.

use crate::cpu::lanes::Lanes;

#[inline(always)]
pub(super) fn norm<L: Lanes>(lanes: L, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let factor = factor(lanes, x, eps);
    let inputs = x.chunks(L::COUNT).zip(weight.chunks(L::COUNT));
    for (out, (x, weight)) in out.chunks_mut(L::COUNT).zip(inputs) {
        let scaled = lanes.mul(lanes.read(x), factor);
        lanes.write(lanes.mul(lanes.read(weight), scaled), out);
    }
}

#[inline(always)]
pub(super) fn norm_in_place<L: Lanes>(lanes: L, x: &mut [f32], weight: &[f32], eps: f32) {
    let factor = factor(lanes, x, eps);
    for (x, weight) in x.chunks_mut(L::COUNT).zip(weight.chunks(L::COUNT)) {
        let scaled = lanes.mul(lanes.read(x), factor);
        lanes.write(lanes.mul(lanes.read(weight), scaled), x);
    }
}

#[inline(always)]
pub(super) fn add<L: Lanes>(lanes: L, sum: &mut [f32], delta: &[f32]) {
    for (sum, delta) in sum.chunks_mut(L::COUNT).zip(delta.chunks(L::COUNT)) {
        lanes.write(lanes.add(lanes.read(sum), lanes.read(delta)), sum);
    }
}

/// The row's factor, which the weight's gradient reads again.
#[inline(always)]
pub(super) fn gradient<L: Lanes>(
    lanes: L,
    x: &[f32],
    weight: &[f32],
    eps: f32,
    d_out: &[f32],
    d_x: &mut [f32],
) -> f32 {
    let mut along = lanes.splat(0.0);
    let inputs = x.chunks(L::COUNT).zip(weight.chunks(L::COUNT)).zip(d_out.chunks(L::COUNT));
    for ((x, weight), d_out) in inputs.clone() {
        let direct = lanes.mul(lanes.read(weight), lanes.read(d_out));
        along = lanes.mul_add(lanes.read(x), direct, along);
    }
    let mut one = [0.0];
    lanes.write(factor(lanes, x, eps), &mut one);
    let [factor] = one;
    let back = lanes.splat(-factor.powi(3) / x.len() as f32 * lanes.sum(along));
    let factor_lanes = lanes.splat(factor);
    for (d_x, ((x, weight), d_out)) in d_x.chunks_mut(L::COUNT).zip(inputs) {
        let direct = lanes.mul(lanes.read(weight), lanes.read(d_out));
        let sum = lanes.mul_add(direct, factor_lanes, lanes.read(d_x));
        lanes.write(lanes.mul_add(lanes.read(x), back, sum), d_x);
    }
    factor
}

#[inline(always)]
fn factor<L: Lanes>(lanes: L, x: &[f32], eps: f32) -> L::Vector {
    let mut squares = lanes.splat(0.0);
    for x in x.chunks(L::COUNT) {
        let x = lanes.read(x);
        squares = lanes.mul_add(x, x, squares);
    }
    lanes.splat(1.0 / (lanes.sum(squares) / x.len() as f32 + eps).sqrt())
}

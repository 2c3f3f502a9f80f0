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

#[inline(always)]
fn factor<L: Lanes>(lanes: L, x: &[f32], eps: f32) -> L::Vector {
    let mut squares = lanes.splat(0.0);
    for x in x.chunks(L::COUNT) {
        let x = lanes.read(x);
        squares = lanes.mul_add(x, x, squares);
    }
    lanes.splat(1.0 / (lanes.sum(squares) / x.len() as f32 + eps).sqrt())
}

//! One row over vectors, in the formulas of the reference.

use super::reference::{CUBIC, SQRT_2_BY_PI};
use crate::cpu::lanes::Lanes;
use crate::elementwise::gate::Activation;

#[inline(always)]
pub(crate) fn gate<L: Lanes>(
    lanes: L,
    gate: &[f32],
    up: &[f32],
    kind: Activation,
    out: &mut [f32],
) {
    let inputs = gate.chunks(L::COUNT).zip(up.chunks(L::COUNT));
    for (out, (gate, up)) in out.chunks_mut(L::COUNT).zip(inputs) {
        let gate = lanes.read(gate);
        let activated = match kind {
            Activation::Silu => times_sigmoid(lanes, gate, gate),
            Activation::GeluTanh => {
                let square = lanes.mul(gate, gate);
                let cube = lanes.mul(lanes.mul(square, gate), lanes.splat(CUBIC));
                let u = lanes.mul(lanes.add(gate, cube), lanes.splat(SQRT_2_BY_PI));
                times_sigmoid(lanes, gate, lanes.add(u, u))
            }
        };
        lanes.write(lanes.mul(activated, lanes.read(up)), out);
    }
}

/// `x / (1 + exp(-y))`
#[inline(always)]
fn times_sigmoid<L: Lanes>(lanes: L, x: L::Vector, y: L::Vector) -> L::Vector {
    let power = lanes.exp(lanes.sub(lanes.splat(0.0), y));
    lanes.div(x, lanes.add(lanes.splat(1.0), power))
}

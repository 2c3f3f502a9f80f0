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

/// See [`reference::gradients`](super::reference::gradients).
#[inline(always)]
pub(crate) fn gradients<L: Lanes>(
    lanes: L,
    [gate, up, d_out]: [&[f32]; 3],
    kind: Activation,
    d_gate: &mut [f32],
    d_up: &mut [f32],
) {
    let one = lanes.splat(1.0);
    let inputs = gate.chunks(L::COUNT).zip(up.chunks(L::COUNT)).zip(d_out.chunks(L::COUNT));
    let outs = d_gate.chunks_mut(L::COUNT).zip(d_up.chunks_mut(L::COUNT));
    for (((x, up), d_out), (d_gate, d_up)) in inputs.zip(outs) {
        let (x, up, d_out) = (lanes.read(x), lanes.read(up), lanes.read(d_out));
        // The sigmoid's argument, and `x` times its slope.
        let (y, x_slope) = match kind {
            Activation::Silu => (x, x),
            Activation::GeluTanh => {
                let square = lanes.mul(x, x);
                let cubic = lanes.mul(square, lanes.splat(CUBIC));
                let u = lanes.mul(lanes.mul_add(cubic, x, x), lanes.splat(2.0 * SQRT_2_BY_PI));
                let slope = lanes.mul_add(cubic, lanes.splat(3.0), one);
                (u, lanes.mul(lanes.mul(x, slope), lanes.splat(2.0 * SQRT_2_BY_PI)))
            }
        };
        let sigmoid = times_sigmoid(lanes, one, y);
        let rest = lanes.mul_add(x_slope, lanes.sub(one, sigmoid), one);
        lanes.write(lanes.mul(d_out, lanes.mul(x, sigmoid)), d_up);
        lanes.write(lanes.mul(lanes.mul(d_out, up), lanes.mul(sigmoid, rest)), d_gate);
    }
}

/// `x / (1 + exp(-y))`
#[inline(always)]
fn times_sigmoid<L: Lanes>(lanes: L, x: L::Vector, y: L::Vector) -> L::Vector {
    let power = lanes.exp(lanes.sub(lanes.splat(0.0), y));
    lanes.div(x, lanes.add(lanes.splat(1.0), power))
}

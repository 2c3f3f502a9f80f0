//! One row.

use crate::elementwise::gate::Activation;

pub(crate) fn gate(gate: &[f32], up: &[f32], kind: Activation, out: &mut [f32]) {
    for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
        let activated = match kind {
            Activation::Silu => silu(*gate),
            Activation::GeluTanh => gelu_tanh(*gate),
        };
        *out = activated * up;
    }
}

fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// `x / 2 (1 + tanh(u))` written as `x / (1 + exp(-2 u))`: the same number, without the loss of
/// digits where tanh is close to -1.
fn gelu_tanh(x: f32) -> f32 {
    let u = SQRT_2_BY_PI * (x + CUBIC * x * x * x);
    x / (1.0 + (-2.0 * u).exp())
}

pub(crate) const SQRT_2_BY_PI: f32 = 0.797_884_6;
pub(crate) const CUBIC: f32 = 0.044_715;

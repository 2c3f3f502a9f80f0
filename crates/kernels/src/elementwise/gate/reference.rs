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

/// `d_gate = d_out up activation'(gate)` and `d_up = d_out activation(gate)`, in f64.
pub(crate) fn gradients(
    [gate, up, d_out]: [&[f32]; 3],
    kind: Activation,
    d_gate: &mut [f32],
    d_up: &mut [f32],
) {
    for i in 0..gate.len() {
        let [x, up, d_out] = [gate[i], up[i], d_out[i]].map(f64::from);
        let (y, slope) = match kind {
            Activation::Silu => (x, 1.0),
            Activation::GeluTanh => {
                let [factor, cubic] = [SQRT_2_BY_PI, CUBIC].map(f64::from);
                let u = factor * (x + cubic * x.powi(3));
                (2.0 * u, 2.0 * factor * (1.0 + 3.0 * cubic * x * x))
            }
        };
        let sigmoid = 1.0 / (1.0 + (-y).exp());
        d_up[i] = (d_out * x * sigmoid) as f32;
        d_gate[i] = (d_out * up * sigmoid * (1.0 + x * slope * (1.0 - sigmoid))) as f32;
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

//! One row, number by number.

use std::f32::consts::FRAC_1_SQRT_2;

use super::Pointwise;

pub(crate) fn activate(x: &mut [f32], kind: Pointwise) {
    for x in x {
        *x = match kind {
            Pointwise::Silu => silu(*x),
            Pointwise::Relu if x.is_nan() => *x,
            Pointwise::Relu => x.max(0.0),
            Pointwise::Gelu => *x * 0.5 * (1.0 + libm::erff(*x * FRAC_1_SQRT_2)),
        };
    }
}

pub(crate) fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

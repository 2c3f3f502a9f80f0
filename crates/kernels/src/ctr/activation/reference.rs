//! One row, number by number.

use super::CtrActivation;

pub(crate) fn activate(x: &mut [f32], kind: CtrActivation) {
    for x in x {
        *x = match kind {
            _ if x.is_nan() => *x,
            CtrActivation::Relu => x.max(0.0),
            CtrActivation::Sigmoid => 1.0 / (1.0 + (-*x).exp()),
            CtrActivation::Elu { .. } if *x > 0.0 => *x,
            CtrActivation::Elu { alpha } => alpha * x.exp_m1(),
        };
    }
}

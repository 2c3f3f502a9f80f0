//! One row over vectors, with one norm over all heads.

use super::{GatedForm, NormRule, Rows};
use crate::cpu::lanes::Lanes;
use crate::hstu::activate::silu;
use crate::hstu::layer_norm::simd::{normed, statistics};

#[inline(always)]
pub(super) fn gated_norm<L: Lanes>(
    lanes: L,
    Rows { attention, u, out }: Rows<'_>,
    rule: &NormRule<'_>,
) {
    let NormRule { activates, affine, eps, form, .. } = *rule;
    let dim = attention.len();
    let (mean, factor) = statistics(lanes, attention, eps);
    for at in (0..dim).step_by(L::COUNT) {
        let end = dim.min(at + L::COUNT);
        let normed = normed(lanes, &attention[at..end], at, mean, factor, affine);
        let gate = lanes.read(&u[at..end]);
        let gate = if activates { silu(lanes, gate) } else { gate };
        let gated = lanes.mul(gate, normed);
        match form {
            GatedForm::Gated => lanes.write(gated, &mut out[at..end]),
            GatedForm::WithAttention | GatedForm::WithNormed => {
                let is_normed = form == GatedForm::WithNormed;
                let middle = if is_normed { normed } else { lanes.read(&attention[at..end]) };
                lanes.write(gate, &mut out[at..end]);
                lanes.write(middle, &mut out[dim + at..dim + end]);
                lanes.write(gated, &mut out[2 * dim + at..2 * dim + end]);
            }
        }
    }
}

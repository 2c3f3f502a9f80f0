//! One row.

use half::{bf16, f16};

pub(crate) const F16_MOST: f32 = 65504.0;

/// Rounds to nearest; what is too large becomes the largest finite number, so that one outlier
/// does not turn a whole attention row into infinities.
pub(crate) fn to_f16(x: &[f32], out: &mut [f16]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = f16::from_f32(x.clamp(-F16_MOST, F16_MOST));
    }
}

#[inline(always)]
pub(crate) fn to_bf16(x: &[f32], out: &mut [bf16]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = bf16::from_f32(*x);
    }
}

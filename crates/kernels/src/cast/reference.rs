//! One row.

use half::{bf16, f16};

/// Rounds to nearest; what is too large becomes the largest finite number, so that one outlier
/// does not turn a whole attention row into infinities.
pub(crate) fn to_f16(x: &[f32], out: &mut [f16]) {
    let most = f16::MAX.to_f32();
    for (out, x) in out.iter_mut().zip(x) {
        *out = f16::from_f32(x.clamp(-most, most));
    }
}

pub(crate) fn to_bf16(x: &[f32], out: &mut [bf16]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = bf16::from_f32(*x);
    }
}

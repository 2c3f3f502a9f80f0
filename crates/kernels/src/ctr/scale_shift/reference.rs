//! One row, number by number.

pub(crate) fn scale_shift(x: &[f32], scale: &[f32], shift: &[f32], out: &mut [f32]) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = x[i].mul_add(scale[i], shift[i]);
    }
}

//! One row, number by number.

pub(crate) fn weight_multiply(x: &[f32], weights: &[f32], out: &mut [f32]) {
    let dim = weights.len() / x.len();
    for (i, out) in out.iter_mut().enumerate() {
        *out = x[i / dim] * weights[i];
    }
}

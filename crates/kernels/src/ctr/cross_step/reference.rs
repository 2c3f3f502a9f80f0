//! One row, number by number.

pub(crate) fn cross_step(first: &[f32], product: &[f32], x: &[f32], out: &mut [f32]) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = first[i].mul_add(product[i], x[i]);
    }
}

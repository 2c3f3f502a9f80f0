//! One row, number by number; the compiler makes vectors of it.

pub(crate) fn scale(x: &[f32], factors: &[f32], out: &mut [f32]) {
    for ((out, x), factor) in out.iter_mut().zip(x).zip(factors) {
        *out = x * factor;
    }
}

pub(crate) fn add_products(a: &[f32], b: &[f32], sums: &mut [f32]) {
    for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
        *sum += a * b;
    }
}

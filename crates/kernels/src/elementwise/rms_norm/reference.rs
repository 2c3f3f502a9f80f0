//! One row, in plain order; the sum is carried in f64, so that it can serve as the truth.

pub(crate) fn norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let factor = factor(x, eps);
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = weight * (x * factor);
    }
}

pub(crate) fn norm_in_place(x: &mut [f32], weight: &[f32], eps: f32) {
    let factor = factor(x, eps);
    for (x, weight) in x.iter_mut().zip(weight) {
        *x = weight * (*x * factor);
    }
}

pub(crate) fn add(sum: &mut [f32], delta: &[f32]) {
    for (sum, delta) in sum.iter_mut().zip(delta) {
        *sum += delta;
    }
}

fn factor(x: &[f32], eps: f32) -> f32 {
    let squares: f64 = x.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    1.0 / ((squares / x.len() as f64) as f32 + eps).sqrt()
}

//! One row, in plain order; sums are carried in f64, so that it can serve as the truth.

use super::AffineRow;

pub(crate) fn norm(x: &[f32], affine: Option<AffineRow<'_>>, eps: f32, out: &mut [f32]) {
    let (mean, factor) = statistics(x, eps);
    for (i, (out, x)) in out.iter_mut().zip(x).enumerate() {
        let normed = (x - mean) * factor;
        *out = affine.map_or(normed, |affine| normed * affine.weight[i] + affine.bias[i]);
    }
}

/// The mean, and one over the standard deviation.
pub(crate) fn statistics(x: &[f32], eps: f32) -> (f32, f32) {
    let count = x.len() as f64;
    let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
    let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / count;
    (mean as f32, (1.0 / (variance + f64::from(eps)).sqrt()) as f32)
}

pub(crate) fn add(sum: &mut [f32], delta: &[f32]) {
    for (sum, delta) in sum.iter_mut().zip(delta) {
        *sum += delta;
    }
}

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

/// What a row adds to the gradients: `d_x += f w d - x f³ / dim Σ w d x`, with `f` the row's
/// factor, and `d_weight += d x f`.
pub(crate) fn gradients(
    x: &[f32],
    weight: &[f32],
    eps: f32,
    d_out: &[f32],
    d_x: &mut [f32],
    d_weight: Option<&mut [f32]>,
) {
    let factor = f64::from(factor(x, eps));
    let terms = x.iter().zip(weight).zip(d_out);
    let along: f64 = terms.map(|((x, w), d)| f64::from(*x) * f64::from(*w) * f64::from(*d)).sum();
    let back = factor.powi(3) / x.len() as f64 * along;
    for (i, d_x) in d_x.iter_mut().enumerate() {
        let direct = factor * f64::from(weight[i]) * f64::from(d_out[i]);
        *d_x = (f64::from(*d_x) + direct - f64::from(x[i]) * back) as f32;
    }
    for (i, d_weight) in d_weight.into_iter().flatten().enumerate() {
        *d_weight = (f64::from(*d_weight) + f64::from(d_out[i]) * f64::from(x[i]) * factor) as f32;
    }
}

pub(crate) fn factor(x: &[f32], eps: f32) -> f32 {
    let squares: f64 = x.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    1.0 / ((squares / x.len() as f64) as f32 + eps).sqrt()
}

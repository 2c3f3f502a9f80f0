//! One token of a branch, number by number.

use crate::elementwise::rms_norm;

/// `out += scale * inner * b^T` · inner: `[rank]` · b: `[rows, rank]` · out: `[rows]`
pub(crate) fn add_product(inner: &[f32], b: &[f32], scale: f32, out: &mut [f32]) {
    for (out, b) in out.iter_mut().zip(b.chunks_exact(inner.len())) {
        let product: f32 = inner.iter().zip(b).map(|(x, b)| x * b).sum();
        *out += scale * product;
    }
}

/// `out += weight * added / sqrt(mean(added²) + eps)`, all `[rows]`
pub(crate) fn add_norm(added: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let factor = rms_norm::reference::factor(added, eps);
    for ((out, added), weight) in out.iter_mut().zip(added).zip(weight) {
        *out += weight * (added * factor);
    }
}

/// `out = factors * out + bias`, all `[rows]`
pub(crate) fn scale(factors: &[f32], bias: Option<&[f32]>, out: &mut [f32]) {
    out.iter_mut().zip(factors).for_each(|(out, factor)| *out *= factor);
    for (out, bias) in out.iter_mut().zip(bias.unwrap_or_default()) {
        *out += bias;
    }
}

/// `d_inner = scale * d_out * b` · d_inner: `[rank]`
pub(crate) fn inner_gradient(d_out: &[f32], b: &[f32], scale: f32, d_inner: &mut [f32]) {
    d_inner.fill(0.0);
    for (d_out, b) in d_out.iter().zip(b.chunks_exact(d_inner.len())) {
        for (d_inner, b) in d_inner.iter_mut().zip(b) {
            *d_inner += scale * d_out * b;
        }
    }
}

/// The Euclidean norm of a row of `weight + scale * b * a` · weight: `[columns]` · b: `[rank]` ·
/// a: `[rank, columns]`
pub(crate) fn row_norm(weight: &[f32], b: &[f32], a: &[f32], scale: f32) -> f32 {
    let columns = weight.len();
    let number = |column: usize| {
        let products =
            b.iter().enumerate().map(|(k, b)| f64::from(*b) * f64::from(a[k * columns + column]));
        f64::from(weight[column]) + f64::from(scale) * products.sum::<f64>()
    };
    (0..columns).map(|column| number(column).powi(2)).sum::<f64>().sqrt() as f32
}

//! The gradients number by number, with sums in f64.

/// `d_x += d_out * weight` · d_x: `[columns]` · weight: `[rows, columns]` · d_out: `[rows]`
pub(crate) fn input_gradient(d_out: &[f32], weight: &[f32], d_x: &mut [f32]) {
    let columns = d_x.len();
    for (column, d_x) in d_x.iter_mut().enumerate() {
        let weights = weight.iter().skip(column).step_by(columns);
        let products = d_out.iter().zip(weights).map(|(d, w)| f64::from(*d) * f64::from(*w));
        *d_x = (f64::from(*d_x) + products.sum::<f64>()) as f32;
    }
}

/// `d_weight += d_out^T * x` · d_weight: `[rows, columns]` · x: `[tokens, columns]` · d_out:
/// `[tokens, rows]`
pub(crate) fn weight_gradient(d_out: &[f32], x: &[f32], columns: usize, d_weight: &mut [f32]) {
    let rows = d_weight.len() / columns;
    for (i, d_weight) in d_weight.iter_mut().enumerate() {
        let (row, column) = (i / columns, i % columns);
        let pairs =
            d_out.iter().skip(row).step_by(rows).zip(x.iter().skip(column).step_by(columns));
        let products = pairs.map(|(d, x)| f64::from(*d) * f64::from(*x));
        *d_weight = (f64::from(*d_weight) + products.sum::<f64>()) as f32;
    }
}

/// `d_bias += Σ_tokens d_out` · d_bias: `[rows]` · d_out: `[tokens, rows]`
pub(crate) fn bias_gradient(d_out: &[f32], d_bias: &mut [f32]) {
    let rows = d_bias.len();
    for (row, d_bias) in d_bias.iter_mut().enumerate() {
        let sum: f64 = d_out.iter().skip(row).step_by(rows).map(|d| f64::from(*d)).sum();
        *d_bias = (f64::from(*d_bias) + sum) as f32;
    }
}

//! One row, layer by layer; products are summed in f64, so that it can serve as the truth.

pub(crate) fn multi_cross(x: &[f32], weights: &[f32], biases: &[f32], out: &mut [f32]) {
    out.copy_from_slice(x);
    for (weights, biases) in weights.chunks_exact(x.len()).zip(biases.chunks_exact(x.len())) {
        let products = out.iter().zip(weights).map(|(x, w)| f64::from(*x) * f64::from(*w));
        let product = products.sum::<f64>() as f32;
        for ((out, x), bias) in out.iter_mut().zip(x).zip(biases) {
            *out = x.mul_add(product, *out) + bias;
        }
    }
}

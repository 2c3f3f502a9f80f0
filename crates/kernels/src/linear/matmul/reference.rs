//! One output: the sum is carried in f64, so that it can serve as the truth for every other order.

pub(crate) fn dot(x: &[f32], weights: &[f32]) -> f32 {
    x.iter().zip(weights).map(|(x, weight)| f64::from(*x) * f64::from(*weight)).sum::<f64>() as f32
}

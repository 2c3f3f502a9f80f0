//! One row; the sum is carried in f64, so that it can serve as the truth.

pub(crate) fn softmax(x: &mut [f32], added: f32) {
    let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let power = |x: f32| f64::from(x - largest).exp();
    let sum: f64 = x.iter().map(|x| power(*x)).sum::<f64>() + f64::from(added);
    for x in x {
        *x = (power(*x) / sum) as f32;
    }
}

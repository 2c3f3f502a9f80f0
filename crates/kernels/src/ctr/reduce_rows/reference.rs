//! One row; sums are carried in f64, so that it can serve as the truth.

pub(crate) fn reduce(x: &[f32], factor: f32, out: &mut [f32]) {
    let dim = out.len();
    for (column, out) in out.iter_mut().enumerate() {
        let sum: f64 = x.iter().skip(column).step_by(dim).map(|x| f64::from(*x)).sum();
        *out = (sum * f64::from(factor)) as f32;
    }
}

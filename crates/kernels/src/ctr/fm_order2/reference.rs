//! One row; sums are carried in f64, so that it can serve as the truth.

pub(crate) fn fm_order2(x: &[f32], out: &mut [f32]) {
    let dim = out.len();
    for (column, out) in out.iter_mut().enumerate() {
        let numbers = || x.iter().skip(column).step_by(dim).map(|x| f64::from(*x));
        let (sum, squares) = (numbers().sum::<f64>(), numbers().map(|x| x * x).sum::<f64>());
        *out = (0.5 * (sum * sum - squares)) as f32;
    }
}

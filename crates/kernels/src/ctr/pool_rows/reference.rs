//! One segment; sums are carried in f64, so that it can serve as the truth.

pub(crate) fn pool<'a>(
    rows: impl Iterator<Item = &'a [f32]> + Clone,
    factor: f32,
    out: &mut [f32],
) {
    for (column, out) in out.iter_mut().enumerate() {
        let sum: f64 = rows.clone().map(|row| f64::from(row[column])).sum();
        *out = (sum * f64::from(factor)) as f32;
    }
}

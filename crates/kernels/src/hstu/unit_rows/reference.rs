//! One row; the sum is carried in f64.

pub(crate) fn unit_row(x: &[f32], least: f32, out: &mut [f32]) {
    let length = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt() as f32;
    // In this order a NaN stays one.
    let length = if length < least { least } else { length };
    out.iter_mut().zip(x).for_each(|(out, x)| *out = x / length);
}

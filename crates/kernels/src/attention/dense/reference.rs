//! One query and its visible keys, one key at a time.
//!
//! The softmax is carried along: whenever a larger score appears, what has been summed so far is
//! scaled down, so the scores need not be kept.

use std::ops::Range;

/// `key(j, i)` and `value(j, i)` are element `i` of the key or value at position `j`.
pub(crate) fn attend(
    q: &[f32],
    scale: f32,
    visible: Range<usize>,
    key: impl Fn(usize, usize) -> f32,
    value: impl Fn(usize, usize) -> f32,
    out: &mut [f32],
) {
    let mut largest = f32::NEG_INFINITY;
    let mut total = 0.0;
    out.fill(0.0);
    for j in visible {
        let products = q.iter().enumerate().map(|(i, q)| f64::from(*q) * f64::from(key(j, i)));
        let score = products.sum::<f64>() as f32 * scale;
        if largest < score {
            let shrink = (largest - score).exp();
            out.iter_mut().for_each(|out| *out *= shrink);
            total *= shrink;
            largest = score;
        }
        let weight = (score - largest).exp();
        total += weight;
        for (i, out) in out.iter_mut().enumerate() {
            *out += weight * value(j, i);
        }
    }
    out.iter_mut().for_each(|out| *out /= total);
}

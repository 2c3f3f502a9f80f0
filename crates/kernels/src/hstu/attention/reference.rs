//! One row and one head, key by key in order.

use crate::hstu::activate::reference::silu;

/// `key(j, i)` and `value(j, i)` are element `i` of the key or value at position `j`.
pub(crate) fn attend(
    q: &[f32],
    scale: f32,
    positions: impl Iterator<Item = usize>,
    bias: impl Fn(usize) -> f32,
    key: impl Fn(usize, usize) -> f32,
    value: impl Fn(usize, usize) -> f32,
    out: &mut [f32],
) {
    let mut sums = vec![0f64; out.len()];
    for j in positions {
        let products = q.iter().enumerate().map(|(i, q)| f64::from(*q) * f64::from(key(j, i)));
        let weight = silu(products.sum::<f64>() as f32 * scale + bias(j));
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum += f64::from(weight) * f64::from(value(j, i));
        }
    }
    out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum as f32);
}

//! Attention of one query over slots and its gradients, number by number in f64.

/// Each slot's share, and the logarithm of the sum that they are shares of.
///
/// query: `[dim]` · keys: `[slots, dim]`
pub(crate) fn shares(
    query: &[f32],
    keys: &[f32],
    scale: f32,
    seen: impl Fn(usize) -> bool,
) -> (Vec<f64>, f32) {
    let score = |(slot, key): (usize, &[f32])| {
        if !seen(slot) {
            return f64::NEG_INFINITY;
        }
        dot(query, key) * f64::from(scale)
    };
    let scores: Vec<f64> = keys.chunks_exact(query.len()).enumerate().map(score).collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
    let log_sum = largest + total.ln();
    (scores.iter().map(|score| (score - log_sum).exp()).collect(), log_sum as f32)
}

/// `out = shares * values` · values: `[slots, dim]` · out: `[dim]`
pub(crate) fn weigh(shares: &[f64], values: &[f32], out: &mut [f32]) {
    let dim = out.len();
    for (d, out) in out.iter_mut().enumerate() {
        let products = shares
            .iter()
            .enumerate()
            .map(|(slot, share)| share * f64::from(values[slot * dim + d]));
        *out = products.sum::<f64>() as f32;
    }
}

/// The gradient of each slot's scaled score: `share (d_out · value - d_out · out)`.
pub(crate) fn score_gradients(
    shares: &[f64],
    values: &[f32],
    out: &[f32],
    d_out: &[f32],
) -> Vec<f64> {
    let mean = dot(d_out, out);
    let slots = shares.iter().zip(values.chunks_exact(out.len()));
    slots.map(|(share, value)| share * (dot(d_out, value) - mean)).collect()
}

pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

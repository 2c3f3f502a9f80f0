//! Attention over slots in any order, with how much each was attended to.
//!
//! Sums are in double precision, so that what differs from it is the other side's rounding.

/// One row's queries against its slots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionShape {
    pub heads: usize,
    pub kv_heads: usize,
    pub key_dim: usize,
    pub value_dim: usize,
    pub scale: f32,
    /// Keys this many positions back and further are not seen.
    pub window: Option<usize>,
    /// `cap * tanh(score / cap)`
    pub soft_cap: Option<f32>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Attended {
    /// `[tokens][heads][value_dim]`
    pub out: Vec<f32>,
    /// `[kv_heads][slots]`: weights summed over the queries, the mean over the query heads that
    /// share a head. They sum to the tokens.
    pub weights: Vec<f32>,
}

/// query: `[heads][tokens][key_dim]` · keys: `[kv_heads][slots][key_dim]` ·
/// values: `[kv_heads][slots][value_dim]` · positions: `[kv_heads][slots]`, negative for none
///
/// The queries are those of positions `first..first + tokens`; each sees positions up to its own.
pub fn attend(
    shape: &AttentionShape,
    first: usize,
    query: &[f32],
    keys: &[f32],
    values: &[f32],
    positions: &[i32],
) -> Attended {
    let slots = positions.len() / shape.kv_heads;
    let tokens = query.len() / (shape.heads * shape.key_dim);
    let group = shape.heads / shape.kv_heads;
    assert_eq!(keys.len(), positions.len() * shape.key_dim, "keys of the slots");
    assert_eq!(values.len(), positions.len() * shape.value_dim, "values of the slots");
    let mut out = vec![0.0; tokens * shape.heads * shape.value_dim];
    let mut weights = vec![0.0f64; positions.len()];
    for (i, query) in query.chunks_exact(shape.key_dim).enumerate() {
        let (head, token) = (i / tokens, i % tokens);
        let at = head / group * slots..(head / group + 1) * slots;
        let keys = &keys[at.start * shape.key_dim..at.end * shape.key_dim];
        let shares = shares(shape, first + token, query, keys, &positions[at.clone()]);
        for (sum, share) in weights[at.clone()].iter_mut().zip(&shares) {
            *sum += share / group as f64;
        }
        let out_start = (token * shape.heads + head) * shape.value_dim;
        for (d, out) in out[out_start..][..shape.value_dim].iter_mut().enumerate() {
            let value = |slot: usize| f64::from(values[(at.start + slot) * shape.value_dim + d]);
            let parts = shares.iter().enumerate().map(|(slot, share)| share * value(slot));
            *out = parts.sum::<f64>() as f32;
        }
    }
    Attended { out, weights: weights.into_iter().map(|weight| weight as f32).collect() }
}

/// The softmax of one query over the slots of its head; it sees itself at least.
fn shares(
    shape: &AttentionShape,
    position: usize,
    query: &[f32],
    keys: &[f32],
    positions: &[i32],
) -> Vec<f64> {
    let oldest = shape.window.map_or(0, |window| position as i64 + 1 - window as i64);
    let seen = |at: i32| 0 <= at && i64::from(at) <= position as i64 && oldest <= i64::from(at);
    let score = |(key, at): (&[f32], &i32)| {
        if !seen(*at) {
            return f64::NEG_INFINITY;
        }
        let products = query.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k));
        let score = products.sum::<f64>() * f64::from(shape.scale);
        shape.soft_cap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
    };
    let scores: Vec<f64> = keys.chunks_exact(shape.key_dim).zip(positions).map(score).collect();
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shares: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let total: f64 = shares.iter().sum();
    shares.into_iter().map(|share| share / total).collect()
}

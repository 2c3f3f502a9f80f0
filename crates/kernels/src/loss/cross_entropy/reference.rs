//! One row's cross entropy, number by number in f64.

/// The loss of a row of logits, and its gradient: `factor` times the softmax, less `factor` at the
/// target. A row without a target has no loss and no gradient.
pub(crate) fn cross_entropy(logits: &[f32], target: Option<usize>, factor: f32) -> (f32, Vec<f32>) {
    let Some(target) = target else { return (0.0, vec![0.0; logits.len()]) };
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = logits.iter().map(|x| (f64::from(*x) - f64::from(most)).exp()).sum();
    let log_total = total.ln() + f64::from(most);
    let gradient = logits.iter().enumerate().map(|(i, x)| {
        let share = (f64::from(*x) - log_total).exp();
        (f64::from(factor) * (share - f64::from(u8::from(i == target)))) as f32
    });
    ((log_total - f64::from(logits[target])) as f32, gradient.collect())
}

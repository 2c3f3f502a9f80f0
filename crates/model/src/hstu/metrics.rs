//! How well scores rank: what recommenders are compared by.

/// The area under the ROC curve of one task: the share of pairs of a positive and a negative whose
/// scores are in order, ties counting half. `None` where one of the two is missing.
pub fn auc(scores: &[f32], positive: impl Fn(usize) -> bool) -> Option<f64> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let (mut below, mut pairs) = (0usize, 0f64);
    let mut positives = 0usize;
    for tied in order.chunk_by(|a, b| scores[*a] == scores[*b]) {
        let here = tied.iter().filter(|sample| positive(**sample)).count();
        let negatives = tied.len() - here;
        pairs += here as f64 * (below as f64 + negatives as f64 / 2.0);
        below += negatives;
        positives += here;
    }
    let all = positives as f64 * below as f64;
    (0.0 < all).then(|| pairs / all)
}

/// Probabilities of classes that exclude each other.
pub fn softmax(logits: &[f32]) -> Vec<f32> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = logits.iter().map(|logit| (logit - largest).exp()).collect();
    let sum: f32 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

/// The logistic function, as scores of tasks become probabilities.
pub fn sigmoid(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}

/// Normalised discounted cumulative gain of one relevant item at a rank, which counts from 1.
pub fn ndcg(rank: usize, k: usize) -> f32 {
    if rank <= k { 1.0 / ((rank + 1) as f32).log2() } else { 0.0 }
}

/// Whether the item is among the first `k`.
pub fn hit(rank: usize, k: usize) -> bool {
    rank <= k
}

/// As recsys-examples counts hits, which leaves rank `k` out: to compare with its figures.
pub fn hit_as_recsys_examples(rank: usize, k: usize) -> bool {
    rank < k
}

/// The reciprocal of a rank.
pub fn reciprocal_rank(rank: usize) -> f32 {
    1.0 / rank as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auc_of_small_cases() {
        let labels = [false, true, false, true];
        let of = |scores: &[f32]| auc(scores, |sample| labels[sample]);
        assert_eq!(of(&[0.1, 0.9, 0.2, 0.8]), Some(1.0));
        assert_eq!(of(&[0.9, 0.1, 0.8, 0.2]), Some(0.0));
        assert_eq!(of(&[0.5; 4]), Some(0.5));
        assert_eq!(auc(&[1.0, 2.0], |_| true), None);
        assert_eq!(auc(&[], |_| true), None);
    }
}

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

/// The mean area of each class against all others, of the classes that samples have. The
/// probabilities are `[samples, classes]`. `None` where samples have fewer than two classes.
pub fn class_auc(probabilities: &[f32], classes: usize, labels: &[i64]) -> Option<f64> {
    let areas = (0..classes).filter_map(|class| {
        let is_class = |sample: usize| usize::try_from(labels[sample]) == Ok(class);
        let column: Vec<f32> = probabilities.iter().skip(class).step_by(classes).copied().collect();
        (0..labels.len()).any(is_class).then(|| auc(&column, is_class))
    });
    let areas = areas.collect::<Option<Vec<f64>>>()?;
    (!areas.is_empty()).then(|| areas.iter().sum::<f64>() / areas.len() as f64)
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
    use proptest::prelude::*;

    use super::*;

    /// Pair by pair, as it is defined.
    fn auc_of_pairs(scores: &[f32], labels: &[bool]) -> Option<f64> {
        let (mut in_order, mut pairs) = (0.0, 0.0);
        for (positive, _) in scores.iter().zip(labels).filter(|(_, label)| **label) {
            for (negative, _) in scores.iter().zip(labels).filter(|(_, label)| !**label) {
                pairs += 1.0;
                in_order += match positive.total_cmp(negative) {
                    std::cmp::Ordering::Greater => 1.0,
                    std::cmp::Ordering::Equal => 0.5,
                    std::cmp::Ordering::Less => 0.0,
                };
            }
        }
        (0.0 < pairs).then(|| in_order / pairs)
    }

    proptest! {
        /// Few different scores, so that many are equal.
        #[test]
        fn auc_is_the_share_of_pairs_in_order(
            samples in prop::collection::vec((0u8..6, any::<bool>()), 0..60),
        ) {
            let scores: Vec<f32> = samples.iter().map(|(score, _)| f32::from(*score)).collect();
            let labels: Vec<bool> = samples.iter().map(|(_, label)| *label).collect();
            let (found, wanted) = (auc(&scores, |at| labels[at]), auc_of_pairs(&scores, &labels));
            prop_assert_eq!(found.is_some(), wanted.is_some());
            prop_assert!((found.unwrap_or(0.0) - wanted.unwrap_or(0.0)).abs() < 1e-12);
        }

        #[test]
        fn auc_of_classes_is_the_mean_of_one_against_all(
            samples in prop::collection::vec((0i64..4, 0u8..5, 0u8..5, 0u8..5, 0u8..5), 1..40),
        ) {
            let labels: Vec<i64> = samples.iter().map(|sample| sample.0).collect();
            let rows = samples.iter().flat_map(|it| [it.1, it.2, it.3, it.4]);
            let probabilities: Vec<f32> = rows.map(f32::from).collect();
            let mut areas = Vec::new();
            for class in (0..4).filter(|class| labels.contains(class)) {
                let is_class: Vec<bool> = labels.iter().map(|label| *label == class).collect();
                let of_class = probabilities.chunks(4).map(|row| row[class as usize]);
                areas.push(auc_of_pairs(&of_class.collect::<Vec<_>>(), &is_class));
            }
            let wanted = areas.iter().copied().sum::<Option<f64>>();
            let wanted = wanted.map(|sum| sum / areas.len() as f64);
            let found = class_auc(&probabilities, 4, &labels);
            prop_assert_eq!(found.is_some(), wanted.is_some());
            prop_assert!((found.unwrap_or(0.0) - wanted.unwrap_or(0.0)).abs() < 1e-12);
        }
    }

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

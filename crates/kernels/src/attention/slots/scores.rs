//! What a sequence's tokens gain by being attended to.

use crate::pages::slot_pages::{Note, SlotPages};
use crate::pages::slot_rule::SlotRule;

/// Adds the weights of `live` rows to the scores · weights: `[slots]`
pub(super) fn add_to_scores(pages: &SlotPages<'_>, rule: &SlotRule, live: usize, weights: &[f32]) {
    let filled = rule.filled(live);
    let number = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes);
    let mut scale = None;
    if rule.by_value_norm {
        let mut total = 0.0;
        for run in pages.runs(0..filled) {
            let norms = pages.notes(Note::ValueNorm, &run);
            for (norm, weight) in norms.iter().zip(&weights[run.slots]) {
                total += f64::from(weight * number(norm));
            }
        }
        // Norms that are all zero tell nothing, and the weights count as they are.
        scale = (total > 0.0).then(|| (live as f64 / total) as f32);
    }
    for run in pages.runs(0..filled) {
        let weights = &weights[run.slots.clone()];
        let scores = pages.notes_mut(Note::Score, &run).iter_mut().zip(weights);
        match scale {
            None => {
                scores.for_each(|(score, weight)| *score = (number(score) + weight).to_le_bytes());
            }
            Some(scale) => {
                for ((score, weight), norm) in scores.zip(pages.notes(Note::ValueNorm, &run)) {
                    *score = (number(score) + weight * number(norm) * scale).to_le_bytes();
                }
            }
        }
    }
}

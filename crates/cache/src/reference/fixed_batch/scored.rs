//! Scores of a fixed batch, with a ring of slots for the newest tokens.
//!
//! The last `grace_tokens` slots are the ring. A token enters there and moves to a chosen slot when
//! the ring comes round. Its slot keeps the score of the token before, as in the original.

use super::batch_shape::BatchShape;
use crate::policy::{HeadSlots, ScoredRule, scoring};

#[derive(Debug)]
pub(super) struct Scored {
    rule: ScoredRule,
    shape: BatchShape,
    /// Whether all rows share the sum of their weights.
    over_rows: bool,
    /// Tokens of the first call.
    first_call: usize,
    /// Tokens that have passed through the ring in calls that it holds whole.
    advanced: usize,
    /// All `[rows][kv_heads][slots]`.
    pub(super) scores: Vec<f32>,
    pub(super) norms: Vec<f32>,
    pub(super) errors: Vec<f32>,
}

impl Scored {
    pub(super) fn new(rule: ScoredRule, shape: BatchShape, over_rows: bool) -> Self {
        let zeros = || vec![0.0; shape.rows * shape.kv_heads * shape.slots];
        let (scores, norms, errors) = (zeros(), zeros(), zeros());
        Scored { rule, shape, over_rows, first_call: 0, advanced: 0, scores, norms, errors }
    }

    pub(super) fn tokens_max(&self) -> usize {
        let most = self.rule.chunk_tokens_max.unwrap_or(self.shape.slots);
        most.min(self.shape.slots - self.rule.grace_tokens)
    }

    /// `[rows][kv_heads][tokens]`
    pub(super) fn choose(&mut self, positions: &[i32], seen: usize, tokens: usize) -> Vec<u32> {
        let slots = self.shape.slots;
        let heads = self.shape.rows * self.shape.kv_heads;
        if seen == 0 {
            self.first_call = tokens;
        }
        let first = if seen < slots {
            Some(seen)
        } else if seen == slots && self.first_call == slots {
            // It does not know the ring: both may want the same slots.
            Some(self.rule.initial_slots.min(slots - tokens))
        } else {
            None
        };
        if let Some(first) = first {
            let run: Vec<u32> = (first as u32..(first + tokens) as u32).collect();
            return run.repeat(heads);
        }
        let selection = self.selection(positions, seen);
        let candidates = 0..slots - self.rule.grace_tokens;
        let of_head = |scores| scoring::lowest(scores, candidates.clone(), |_| true, tokens);
        selection.chunks_exact(slots).flat_map(of_head).collect()
    }

    /// The slots of the ring that the call's newest tokens take; none while the cache fills.
    pub(super) fn ring_slots(&mut self, tokens: usize, seen: usize) -> Vec<u32> {
        let (slots, grace) = (self.shape.slots, self.rule.grace_tokens);
        if seen < slots || grace == 0 {
            return Vec::new();
        }
        let first = slots - grace;
        let taken = (0..tokens.min(grace)).map(|i| (first + (self.advanced + i) % grace) as u32);
        let taken = taken.collect();
        if tokens <= grace {
            self.advanced += tokens;
        }
        taken
    }

    /// A token enters a slot; one of the ring keeps its score.
    pub(super) fn enter(&mut self, at: usize, norm: f32, error: f32, in_ring: bool) {
        if !in_ring {
            self.scores[at] = 0.0;
        }
        self.norms[at] = norm;
        self.errors[at] = error;
    }

    pub(super) fn move_slot(&mut self, from: usize, to: usize) {
        for numbers in [&mut self.scores, &mut self.norms, &mut self.errors] {
            numbers[to] = numbers[from];
        }
    }

    /// weights: `[rows][kv_heads][filled]`
    pub(super) fn add_weights(&mut self, weights: &[f32], tokens: usize, seen: usize) {
        let slots = self.shape.slots;
        let filled = seen.min(slots);
        let weights = if self.over_rows { self.summed(weights) } else { weights.to_vec() };
        for (head, weights) in weights.chunks_exact(filled).enumerate() {
            let at = head * slots..head * slots + filled;
            let slots = HeadSlots {
                positions: &[],
                weights,
                value_norms: &self.norms[at.clone()],
                errors: &self.errors[at.clone()],
                chunk_tokens: tokens,
                seen_tokens: seen,
            };
            scoring::add_weights(self.rule.weighting, &slots, &mut self.scores[at]);
        }
    }

    /// `[rows][kv_heads][slots]`
    pub(super) fn selection(&self, positions: &[i32], seen: usize) -> Vec<f32> {
        let mut selection = self.scores.clone();
        if self.rule.per_age {
            scoring::divide_by_age(&mut selection, positions, seen, self.first_call);
        }
        let slots = self.shape.slots;
        if let Some(share) = self.rule.score_share {
            let counted = |at: usize| at % slots < slots - self.rule.grace_tokens;
            let per_row = self.shape.kv_heads * slots;
            let rows = selection.chunks_exact_mut(per_row).zip(self.errors.chunks_exact(per_row));
            rows.for_each(|(row, errors)| scoring::join_errors(share, row, errors, counted));
        }
        selection
    }

    /// The same for every row: the sum over all.
    fn summed(&self, weights: &[f32]) -> Vec<f32> {
        let per_row = weights.len() / self.shape.rows;
        let of_place = |i: usize| weights.iter().skip(i).step_by(per_row).sum::<f32>();
        let sums: Vec<f32> = (0..per_row).map(of_place).collect();
        sums.repeat(self.shape.rows)
    }
}

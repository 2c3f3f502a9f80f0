//! Scores that a program brings along: a head's slots are laid side by side for it, whatever pages
//! they lie in.

use crate::pages::slot_pages::{Note, SlotPages};
use crate::pages::slot_rule::SlotRule;
use crate::pages::slot_scorer::{HeadSlots, SlotScorer};

/// Numbers of a slot in a worker's memory: position, weight, norm, error, score.
pub(super) const SLOT_FLOATS: usize = 5;

/// Lets `scorer` take the weights of `live` rows into the scores · weights: `[slots]` · memory:
/// four numbers a slot
pub(super) fn add_own_scores(
    scorer: &dyn SlotScorer,
    pages: &SlotPages<'_>,
    rule: &SlotRule,
    live: usize,
    weights: &[f32],
    memory: &mut [f32],
) {
    let filled = rule.filled(live);
    let (positions, memory) = memory.split_at_mut(filled);
    // SAFETY: any bits are a number of either type.
    let (_, positions, _) = unsafe { positions.align_to_mut::<i32>() };
    for run in pages.runs(0..filled) {
        let numbers = positions[run.slots.clone()].iter_mut().zip(pages.positions(&run));
        numbers.for_each(|(to, bytes)| *to = i32::from_le_bytes(*bytes));
    }
    let (scores, memory) = notes(pages, Note::Score, filled, memory);
    let (value_norms, memory) = notes(pages, Note::ValueNorm, filled, memory);
    let (errors, _) = notes(pages, Note::Error, filled, memory);
    let head = HeadSlots {
        positions,
        weights: &weights[..filled],
        value_norms,
        errors,
        chunk_tokens: live,
        seen_tokens: rule.past as usize + live,
    };
    scorer.score(&head, scores);
    for run in pages.runs(0..filled) {
        let numbers = pages.notes_mut(Note::Score, &run).iter_mut().zip(&scores[run.slots]);
        numbers.for_each(|(bytes, score)| *bytes = score.to_le_bytes());
    }
}

/// A head's numbers in the first of the memory, none where pages have none; and the rest of it.
fn notes<'m>(
    pages: &SlotPages<'_>,
    note: Note,
    filled: usize,
    memory: &'m mut [f32],
) -> (&'m mut [f32], &'m mut [f32]) {
    let filled = if pages.has(note) { filled } else { 0 };
    let (numbers, memory) = memory.split_at_mut(filled);
    for run in pages.runs(0..filled) {
        let numbers = numbers[run.slots.clone()].iter_mut().zip(pages.notes(note, &run));
        numbers.for_each(|(to, bytes)| *to = f32::from_le_bytes(*bytes));
    }
    (numbers, memory)
}

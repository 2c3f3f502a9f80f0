//! Ops that need no pooled vectors: they can run while rows are still being read.

use std::collections::BTreeSet;

use super::place::{Memory, Place};
use super::planned_step::PlannedStep;

/// Puts them before the others; how many they are. Both keep their order.
pub(super) fn put_early_first(pooled: &[Place], steps: &mut Vec<PlannedStep>) -> usize {
    let mut late: BTreeSet<usize> = pooled.iter().filter_map(memory).collect();
    let (mut first, mut then) = (Vec::new(), Vec::new());
    for step in steps.drain(..) {
        let is_late = |place: &Place| memory(place).is_none_or(|memory| late.contains(&memory));
        if step.reads().iter().chain(step.writes()).any(is_late) {
            late.extend(step.writes().iter().filter_map(memory));
            then.push(step);
        } else {
            first.push(step);
        }
    }
    let count = first.len();
    steps.extend(first.into_iter().chain(then));
    count
}

/// None of the results: they are the caller's, at the end.
fn memory(place: &Place) -> Option<usize> {
    match place.memory {
        Memory::Slot(memory) => Some(memory),
        Memory::Output => None,
    }
}

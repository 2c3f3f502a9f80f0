//! What decides which tokens of a full cache leave.

use crate::slot_kv::SlotRule;
use crate::slot_pages::{Note, SlotPages};

pub(super) struct Selection<'a> {
    rule: &'a SlotRule,
    /// Over what may leave in all heads: scores by age, and errors; where errors count.
    joined: Option<[Span; 2]>,
}

/// From the smallest of some numbers to the largest.
#[derive(Clone, Copy)]
struct Span {
    least: f32,
    most: f32,
}

impl<'a> Selection<'a> {
    pub(super) fn new<'p>(
        rule: &'a SlotRule,
        kv_heads: usize,
        head: impl Fn(usize) -> SlotPages<'p>,
    ) -> Self {
        let alone = Selection { rule, joined: None };
        if rule.score_share == 1.0 {
            return alone;
        }
        let mut spans = [Span::EMPTY; 2];
        for head in (0..kv_heads).map(head) {
            for slot in alone.candidates(&head) {
                spans[0].take_in(alone.score(&head, slot));
                spans[1].take_in(head.note(Note::Error, slot));
            }
        }
        Selection { rule, joined: Some(spans) }
    }

    /// The `count` slots of a head that leave, in the order in which they do.
    pub(super) fn lowest<'s>(
        &self,
        head: &SlotPages<'_>,
        count: usize,
        scratch: &'s mut [f32],
    ) -> impl Iterator<Item = i32> + use<'s> {
        // SAFETY: any bits are a number of either type.
        let (_, ranked, _) = unsafe { scratch.align_to_mut::<u64>() };
        let mut candidates = 0;
        for slot in self.candidates(head) {
            ranked[candidates] = u64::from(rank_of(self.of(head, slot))) << 32 | slot as u64;
            candidates += 1;
        }
        assert!(count <= candidates, "{count} slots wanted, {candidates} may leave");
        let ranked = &mut ranked[..candidates];
        if count < candidates {
            ranked.select_nth_unstable(count);
        }
        ranked[..count].sort_unstable();
        ranked[..count].iter().map(|ranked| *ranked as u32 as i32)
    }

    fn of(&self, head: &SlotPages<'_>, slot: usize) -> f32 {
        let score = self.score(head, slot);
        let Some([scores, errors]) = self.joined else { return score };
        let share = self.rule.score_share;
        let lost = (share - 1.0) / 2.0 * errors.share(head.note(Note::Error, slot));
        share * scores.share(score) + lost + (1.0 - share)
    }

    fn score(&self, head: &SlotPages<'_>, slot: usize) -> f32 {
        let score = head.note(Note::Score, slot);
        if !self.rule.per_age {
            return score;
        }
        let since = head.position(slot).max(self.rule.first_chunk - 1);
        score / (self.rule.past - since) as f32
    }

    fn candidates<'s>(&self, head: &'s SlotPages<'_>) -> impl Iterator<Item = usize> + use<'s> {
        let SlotRule { protected, slots, past, grace, .. } = *self.rule;
        let may_leave = move |slot: &usize| {
            let position = head.position(*slot);
            protected <= position && position < past - grace
        };
        (protected as usize..slots as usize).filter(may_leave)
    }
}

impl Span {
    const EMPTY: Span = Span { least: f32::INFINITY, most: f32::NEG_INFINITY };

    fn take_in(&mut self, x: f32) {
        self.least = self.least.min(x);
        self.most = self.most.max(x);
    }

    /// 0 for the smallest, 1 for the largest; equal numbers tell nothing.
    fn share(&self, x: f32) -> f32 {
        let length = self.most - self.least;
        if length > 0.0 { (x - self.least) / length } else { 0.0 }
    }
}

/// Orders as `f32::total_cmp` does.
fn rank_of(x: f32) -> u32 {
    let bits = x.to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

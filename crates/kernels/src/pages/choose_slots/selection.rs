//! What decides which tokens of a full cache leave.

use crate::cpu::lanes::{Kernel, Lanes, Simd};
use crate::pages::slot_pages::{Note, SlotPages, SlotRun};
use crate::pages::slot_rule::SlotRule;

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

/// Of a slot whose token does not leave: above all ranks of those that may.
const STAYS: u32 = u32::MAX;

impl<'a> Selection<'a> {
    pub(super) fn new<'p>(
        rule: &'a SlotRule,
        kv_heads: usize,
        head: impl Fn(usize) -> SlotPages<'p>,
    ) -> Self {
        let alone = Selection { rule, joined: None };
        if rule.score_fraction == 1.0 {
            return alone;
        }
        let mut spans = [Span::EMPTY; 2];
        for head in (0..kv_heads).map(head) {
            for run in alone.runs(&head) {
                let (scores, errors) =
                    (head.notes(Note::Score, &run), head.notes(Note::Error, &run));
                for ((position, score), error) in
                    head.positions(&run).iter().zip(scores).zip(errors)
                {
                    let position = i32::from_le_bytes(*position);
                    if alone.may_leave(position) {
                        spans[0].take_in(alone.score(number(score), position));
                        spans[1].take_in(number(error));
                    }
                }
            }
        }
        Selection { rule, joined: Some(spans) }
    }

    /// Gives `take` the slots of a head that leave, one for each of `count`, in the order in which
    /// they do.
    pub(super) fn lowest(
        &self,
        simd: Simd,
        head: &SlotPages<'_>,
        count: usize,
        scratch: &mut [f32],
        mut take: impl FnMut(usize, i32),
    ) {
        let (first, slots) = (self.rule.protected, self.rule.slots - self.rule.protected);
        let (ranks, scratch) = scratch.split_at_mut(slots as usize);
        // SAFETY: any bits are a number of either type.
        let (ranks, (_, ranked, _)) =
            unsafe { (ranks.align_to_mut::<u32>().1, scratch.align_to_mut::<u64>()) };
        let mut lowest = 0;
        simd.run(RankSlots { selection: self, head, ranks, lowest: &mut lowest });
        if count == 1 {
            assert!(ranks[lowest] != STAYS, "no slot may leave");
            return take(0, first + lowest as i32);
        }
        let mut candidates = 0;
        for (slot, rank) in (first..).zip(&*ranks).filter(|(_, rank)| **rank != STAYS) {
            ranked[candidates] = u64::from(*rank) << 32 | slot as u64;
            candidates += 1;
        }
        assert!(count <= candidates, "{count} slots wanted, {candidates} may leave");
        let ranked = &mut ranked[..candidates];
        if count < candidates {
            ranked.select_nth_unstable(count);
        }
        ranked[..count].sort_unstable();
        ranked[..count].iter().enumerate().for_each(|(i, slot)| take(i, *slot as u32 as i32));
    }

    /// Writes the rank of each slot behind the protected ones: the lowest leave first.
    #[inline(always)]
    fn rank(&self, head: &SlotPages<'_>, ranks: &mut [u32]) {
        for run in self.runs(head) {
            let positions = head.positions(&run).iter();
            let rows = positions.zip(head.notes(Note::Score, &run));
            let ranks = &mut ranks[run.slots.start - self.rule.protected as usize..];
            match self.joined {
                None => {
                    for (rank, (position, score)) in ranks.iter_mut().zip(rows) {
                        let position = i32::from_le_bytes(*position);
                        *rank = self.rank_of(position, self.score(number(score), position));
                    }
                }
                Some(spans) => {
                    let rows = rows.zip(head.notes(Note::Error, &run));
                    for (rank, ((position, score), error)) in ranks.iter_mut().zip(rows) {
                        let position = i32::from_le_bytes(*position);
                        let score = self.score(number(score), position);
                        *rank = self.rank_of(position, self.join(spans, score, number(error)));
                    }
                }
            }
        }
    }

    fn runs<'p>(&self, head: &SlotPages<'p>) -> impl Iterator<Item = SlotRun> + use<'p> {
        head.runs(self.rule.protected as usize..self.rule.slots as usize)
    }

    #[inline(always)]
    fn rank_of(&self, position: i32, selection: f32) -> u32 {
        if self.may_leave(position) { rank_of(selection).min(STAYS - 1) } else { STAYS }
    }

    #[inline(always)]
    fn may_leave(&self, position: i32) -> bool {
        self.rule.protected <= position && position < self.rule.past - self.rule.grace
    }

    #[inline(always)]
    fn score(&self, score: f32, position: i32) -> f32 {
        if !self.rule.per_age {
            return score;
        }
        let since = position.max(self.rule.first_chunk - 1);
        score / (self.rule.past - since) as f32
    }

    #[inline(always)]
    fn join(&self, [scores, errors]: [Span; 2], score: f32, error: f32) -> f32 {
        let share = self.rule.score_fraction;
        let lost = (share - 1.0) / 2.0 * errors.share(error);
        share * scores.share(score) + lost + (1.0 - share)
    }
}

/// Ranks of a head's slots behind the protected ones. Plain loops, which the compiler makes vectors
/// of.
struct RankSlots<'a, 'p> {
    selection: &'a Selection<'a>,
    head: &'a SlotPages<'p>,
    /// `[slots]`, written.
    ranks: &'a mut [u32],
    /// Takes the first of the lowest.
    lowest: &'a mut usize,
}

impl RankSlots<'_, '_> {
    #[inline(always)]
    fn rank(self) {
        const BLOCK: usize = 64;
        self.selection.rank(self.head, self.ranks);
        let mut lowest = (u32::MAX, 0);
        for (block, ranks) in self.ranks.chunks(BLOCK).enumerate() {
            let least = ranks.iter().copied().fold(u32::MAX, u32::min);
            if least < lowest.0 {
                lowest = (least, block * BLOCK);
            }
        }
        let (least, start) = lowest;
        let inside = self.ranks[start..].iter().position(|rank| *rank == least);
        *self.lowest = start + inside.expect("the block's lowest is in it");
    }
}

impl Kernel for RankSlots<'_, '_> {
    fn reference(self) {
        self.rank();
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, _: L) {
        self.rank();
    }
}

impl Span {
    const EMPTY: Span = Span { least: f32::INFINITY, most: f32::NEG_INFINITY };

    fn take_in(&mut self, x: f32) {
        self.least = self.least.min(x);
        self.most = self.most.max(x);
    }

    /// 0 for the smallest, 1 for the largest; equal numbers tell nothing.
    #[inline(always)]
    fn share(&self, x: f32) -> f32 {
        let length = self.most - self.least;
        if length > 0.0 { (x - self.least) / length } else { 0.0 }
    }
}

#[inline(always)]
fn number(bytes: &[u8; 4]) -> f32 {
    f32::from_le_bytes(*bytes)
}

/// Orders as `f32::total_cmp` does.
#[inline(always)]
fn rank_of(x: f32) -> u32 {
    let bits = x.to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

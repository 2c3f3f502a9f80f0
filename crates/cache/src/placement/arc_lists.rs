//! ARC's books: how many entries were used once and more than once, what has left of both, and how
//! many of the level's entries those used once should have.
//!
//! In the words of Megiddo and Modha (*ARC: a self-tuning, low overhead replacement cache*, 2003)
//! T1 and T2 are the entries used once and more than once, held or idle; B1 and B2 the ghosts of
//! both; p is the target size of T1. The lists themselves are places of the [`IdleOrder`], ranks
//! `ONCE` and `MORE`. The paper moves p first, then replaces, then brings the content in; a level
//! makes room before it adds. So content that was admitted is noted as coming: the victim is chosen
//! by the p that it will cause.
//! Invariant: there are no ghosts in B1 while T1 and B1 exceed the capacity, and none in B2 while
//! all four lists exceed twice the capacity.

use std::iter;

use super::ghost_list::GhostList;
use super::idle_order::{IdleOrder, Place};
use super::retention::Class;

pub(super) struct ArcLists {
    capacity: usize,
    /// |T1| and |T2|, by rank.
    entries: [usize; 2],
    /// B1 and B2, by rank.
    ghosts: [GhostList; 2],
    /// p.
    once_target: f64,
    coming: Option<Coming>,
}

/// Content that will be added, and what that does to the target.
#[derive(Clone, Copy)]
struct Coming {
    content: u64,
    shift: f64,
}

const ONCE: u8 = 0;
const MORE: u8 = 1;

impl ArcLists {
    pub(super) fn new(capacity: usize) -> Self {
        let ghosts = [GhostList::default(), GhostList::default()];
        ArcLists { capacity, entries: [0; 2], ghosts, once_target: 0.0, coming: None }
    }

    /// The content was admitted: victims are chosen for it.
    pub(super) fn expect(&mut self, content: u64) {
        self.coming = Some(Coming { content, shift: self.shift(content) });
    }

    /// An entry with this content comes in. Returns its rank.
    pub(super) fn add(&mut self, content: u64) -> u8 {
        let expected = self.coming.take().filter(|coming| coming.content == content);
        let shift = expected.map_or_else(|| self.shift(content), |coming| coming.shift);
        self.once_target = self.shifted(shift);
        let was_here = self.ghosts.iter_mut().any(|ghosts| ghosts.remove(content));
        let rank = if was_here { MORE } else { ONCE };
        self.entries[usize::from(rank)] += 1;
        self.forget_ghosts();
        rank
    }

    /// An entry of this rank is used again. Returns its new rank.
    pub(super) fn use_again(&mut self, rank: u8) -> u8 {
        self.entries[usize::from(rank)] -= 1;
        self.entries[usize::from(MORE)] += 1;
        MORE
    }

    /// An entry leaves, and its content becomes a ghost.
    pub(super) fn remove(&mut self, content: u64, rank: u8) {
        self.entries[usize::from(rank)] -= 1;
        // Two entries may have the same content; its ghost is one.
        self.ghosts[usize::from(1 - rank)].remove(content);
        self.ghosts[usize::from(rank)].push_newest(content);
        self.forget_ghosts();
    }

    /// Idle slots in the order in which they leave: in each class T1's or T2's oldest, whichever is
    /// larger than it should be. Expired ones leave by age alone; `rank` tells what they were.
    pub(super) fn in_order(
        &self,
        idle: &IdleOrder,
        rank: impl Fn(u32) -> u8,
    ) -> impl Iterator<Item = u32> {
        let lists =
            |class| [ONCE, MORE].map(|rank| idle.in_place(Place { class, rank }).peekable());
        let mut class = Class::EXPIRED;
        let mut slots = lists(class);
        let mut once_entries = self.entries[usize::from(ONCE)];
        iter::from_fn(move || {
            loop {
                let is_there = slots.each_mut().map(|slots| slots.peek().is_some());
                let list = match is_there {
                    [true, true] => usize::from(!self.takes_once(once_entries)),
                    [true, false] => 0,
                    [false, true] => 1,
                    [false, false] => {
                        class = idle.next_class(Class(class.0 + 1))?;
                        slots = lists(class);
                        continue;
                    }
                };
                let slot = slots[list].next().expect("it was looked at");
                once_entries -= usize::from(rank(slot) == ONCE);
                return Some(slot);
            }
        })
    }

    /// REPLACE of the paper, where both lists have somebody to offer.
    fn takes_once(&self, once_entries: usize) -> bool {
        let shift = self.coming.map_or(0.0, |coming| coming.shift);
        let (size, target) = (once_entries as f64, self.shifted(shift));
        target < size || (shift < 0.0 && size == target)
    }

    /// What a use of this content says about the target: a ghost of T1 that it should be larger,
    /// one of T2 that it should be smaller, by the more, the fewer such ghosts there are.
    fn shift(&self, content: u64) -> f64 {
        let [once, more] = self.ghosts.each_ref().map(|ghosts| ghosts.len() as f64);
        match self.ghosts.each_ref().map(|ghosts| ghosts.contains(content)) {
            [true, _] => (more / once).max(1.0),
            [_, true] => -(once / more).max(1.0),
            _ => 0.0,
        }
    }

    fn shifted(&self, shift: f64) -> f64 {
        (self.once_target + shift).clamp(0.0, self.capacity as f64)
    }

    fn forget_ghosts(&mut self) {
        let [once, more] = &mut self.ghosts;
        while self.capacity < self.entries[0] + once.len() && 0 < once.len() {
            once.forget_oldest();
        }
        let entries = self.entries[0] + self.entries[1];
        while 2 * self.capacity < entries + once.len() + more.len() && 0 < more.len() {
            more.forget_oldest();
        }
    }

    /// `ranks` are those of all entries.
    pub(super) fn check(&self, ranks: impl Iterator<Item = u8>) {
        let mut entries = [0; 2];
        ranks.for_each(|rank| entries[usize::from(rank)] += 1);
        assert_eq!(self.entries, entries, "entries used once and more than once");
        self.ghosts.iter().for_each(GhostList::check);
        let [once, more] = self.ghosts.each_ref().map(GhostList::len);
        let capacity = self.capacity;
        assert!((0.0..=capacity as f64).contains(&self.once_target), "p is {}", self.once_target);
        let used_once = entries[0] + once;
        assert!(used_once <= capacity || once == 0, "{used_once} in T1 and B1 for {capacity}");
        let all = used_once + entries[1] + more;
        assert!(all <= 2 * capacity || more == 0, "{all} in all lists for {capacity}");
    }
}

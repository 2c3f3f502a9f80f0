//! Idle slots by place, and within a place in the order in which they became idle.
//!
//! A place has a linked list, through slots, of those that came in order: to become idle and to be
//! used again cost O(1) and allocate nothing. A slot that changes its place while it is idle keeps
//! its turn; where others of the new place came later, it stands in an ordered set beside the list.
//! Invariant: list and set of a place are each ordered by stamps, and every idle slot is in exactly
//! one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use super::retention::Class;

/// No slot: ends of a list, and links of slots outside one.
const NONE: u32 = u32::MAX;

/// Where idle slots stand; those of the lower place leave first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) class: Class,
    /// What the rule says within a class.
    pub(super) rank: u8,
}

pub(super) struct IdleOrder {
    links: Vec<Link>,
    /// Those of places where somebody stands.
    lines: BTreeMap<Place, Line>,
    stamp: u64,
    len: usize,
}

struct Line {
    oldest: u32,
    newest: u32,
    /// Stamps and slots that came out of turn.
    moved: BTreeSet<(u64, u32)>,
}

#[derive(Clone, Copy)]
struct Link {
    older: u32,
    newer: u32,
    /// When the slot became idle, counted in slots that did.
    stamp: u64,
    place: Place,
    standing: Standing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Outside,
    Listed,
    Moved,
}

const OUTSIDE: Link = Link {
    older: NONE,
    newer: NONE,
    stamp: 0,
    place: Place { class: Class::EXPIRED, rank: 0 },
    standing: Standing::Outside,
};

impl IdleOrder {
    pub(super) fn new() -> Self {
        IdleOrder { links: Vec::new(), lines: BTreeMap::new(), stamp: 0, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn contains(&self, slot: u32) -> bool {
        self.links.get(slot as usize).is_some_and(|link| link.standing != Standing::Outside)
    }

    /// The slot becomes idle, the newest of its place.
    pub(super) fn push_newest(&mut self, slot: u32, place: Place) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, OUTSIDE);
        }
        self.stamp += 1;
        self.insert(slot, place, self.stamp);
    }

    /// An idle slot goes to another place and keeps its turn.
    pub(super) fn change(&mut self, slot: u32, place: Place) {
        let link = self.links[slot as usize];
        if link.place != place {
            self.remove(slot);
            self.insert(slot, place, link.stamp);
        }
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let Link { older, newer, stamp, place, standing } = self.links[slot as usize];
        let line = self.lines.get_mut(&place).expect("somebody stands in a slot's place");
        match standing {
            Standing::Outside => panic!("slot {slot} is not idle"),
            Standing::Moved => {
                line.moved.remove(&(stamp, slot));
            }
            Standing::Listed => {
                match older {
                    NONE => line.oldest = newer,
                    older => self.links[older as usize].newer = newer,
                }
                match newer {
                    NONE => line.newest = older,
                    newer => self.links[newer as usize].older = older,
                }
            }
        }
        if line.oldest == NONE && line.moved.is_empty() {
            self.lines.remove(&place);
        }
        self.links[slot as usize] = OUTSIDE;
        self.len -= 1;
    }

    /// When an idle slot became so: its turn among those of its place.
    pub(super) fn stamp(&self, slot: u32) -> u64 {
        self.links[slot as usize].stamp
    }

    /// A slot that was taken out is idle again and has the turn that it had.
    pub(super) fn put_back(&mut self, slot: u32, place: Place, stamp: u64) {
        self.insert(slot, place, stamp);
    }

    /// Gives all slots the places that `place` says; each keeps its turn.
    pub(super) fn change_all(&mut self, place: impl Fn(u32) -> Place) {
        let stamped = |slot| (place(slot), self.links[slot as usize].stamp, slot);
        let mut slots: Vec<(Place, u64, u32)> = self.in_order().map(stamped).collect();
        // Not the unstable one: what was in order in its place is a run, and runs are merged.
        slots.sort();
        self.lines.clear();
        self.len = 0;
        for (place, stamp, slot) in slots {
            self.links[slot as usize].standing = Standing::Outside;
            self.insert(slot, place, stamp);
        }
    }

    /// All idle slots by place, and by turn in each.
    pub(super) fn in_order(&self) -> impl Iterator<Item = u32> {
        self.lines.keys().flat_map(|place| self.in_place(*place))
    }

    /// The slots of one place by turn.
    pub(super) fn in_place(&self, place: Place) -> impl Iterator<Item = u32> + use<'_> {
        let line = self.lines.get(&place);
        let mut at = line.map_or(NONE, |line| line.oldest);
        let mut moved = line.into_iter().flat_map(|line| line.moved.iter().copied()).peekable();
        iter::from_fn(move || {
            let listed = (at != NONE).then(|| (self.links[at as usize].stamp, at));
            if listed.is_none_or(|listed| moved.peek().is_some_and(|moved| *moved < listed)) {
                return moved.next().map(|(_, slot)| slot);
            }
            let slot = at;
            at = self.links[slot as usize].newer;
            Some(slot)
        })
    }

    /// The lowest class, from `from` on, in which somebody stands.
    pub(super) fn next_class(&self, from: Class) -> Option<Class> {
        let from = Place { class: from, rank: 0 };
        self.lines.range(from..).next().map(|(place, _)| place.class)
    }

    fn insert(&mut self, slot: u32, place: Place, stamp: u64) {
        let standing = self.links[slot as usize].standing;
        assert_eq!(standing, Standing::Outside, "slot {slot} is idle already");
        let empty = || Line { oldest: NONE, newest: NONE, moved: BTreeSet::new() };
        let line = self.lines.entry(place).or_insert_with(empty);
        let older = line.newest;
        let standing = match older {
            NONE => {
                line.oldest = slot;
                Standing::Listed
            }
            older if self.links[older as usize].stamp < stamp => {
                self.links[older as usize].newer = slot;
                Standing::Listed
            }
            _ => Standing::Moved,
        };
        if standing == Standing::Listed {
            line.newest = slot;
        } else {
            line.moved.insert((stamp, slot));
        }
        self.links[slot as usize] = Link { older, newer: NONE, stamp, place, standing };
        self.len += 1;
    }

    /// Walks all lists and sets: every link has its counterpart, every slot its turn.
    pub(super) fn check(&self, place: impl Fn(u32) -> Place) {
        let mut count = 0;
        for (at, line) in &self.lines {
            assert!(line.oldest != NONE || !line.moved.is_empty(), "nobody stands in {at:?}");
            let (mut older, mut slot) = (NONE, line.oldest);
            while slot != NONE {
                let link = self.links[slot as usize];
                assert_eq!((link.standing, link.older), (Standing::Listed, older), "slot {slot}");
                let is_in_turn = older == NONE || self.links[older as usize].stamp < link.stamp;
                assert!(is_in_turn, "slot {slot} is listed out of turn");
                assert_eq!((link.place, place(slot)), (*at, *at), "the place of slot {slot}");
                count += 1;
                assert!(count <= self.links.len(), "the list of {at:?} is a ring");
                (older, slot) = (slot, link.newer);
            }
            assert_eq!(older, line.newest, "the newest of {at:?} is not the last");
            for (stamp, slot) in &line.moved {
                let link = self.links[*slot as usize];
                assert_eq!((link.standing, link.stamp), (Standing::Moved, *stamp), "slot {slot}");
                assert_eq!((link.place, place(*slot)), (*at, *at), "the place of slot {slot}");
                count += 1;
            }
        }
        assert_eq!(count, self.len, "idle slots listed and counted");
        let standing = self.links.iter().filter(|link| link.standing != Standing::Outside);
        assert_eq!(count, standing.count(), "idle slots listed and marked");
    }
}

//! Which entry of a full level of memory leaves first.
//!
//! A level (pages of a device or of the host, slots on a disk) holds entries by content. An idle
//! one must leave when room is needed, and [`Placement`] says which: expired ones first, then those
//! of lower [priority](Claims), and among equals what the [rule](PlacementRule) says:
//!
//! - `lru`, the longest idle first: right where what was used last is asked for next, as in
//!   conversations; it costs least. One long scan pushes everything else out.
//! - `lfu`, the least frequently used first, with an admission test (TinyLFU): right where few
//!   contents make most of the uses for a long time, as system prompts or hot rows do. It is slow
//!   to see that what was popular is over.
//! - `arc`, which divides the level between entries used once and more than once and moves the
//!   border by what it misses (ARC): right where it changes which of the two pays. It remembers as
//!   many contents that have left as the level has entries.
//!
//! It is a decision: no bytes, no clock (the caller passes the time), and the same calls give the
//! same answers. Who holds an entry, and how often, is the caller's business.
//! Invariant: an entry is held or idle, and [`Placement::victim`] names idle ones alone. Entries of
//! one class that the rule does not tell apart leave in the order in which they were released.

mod arc_lists;
mod claims;
mod frequency_sketch;
mod ghost_list;
mod idle_order;
mod retention;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::Hash;

use arc_lists::ArcLists;
use frequency_sketch::FrequencySketch;
use idle_order::{IdleOrder, Place};
use retention::Class;

pub use claims::Claims;
pub use retention::Retention;
pub use rule::{PlacementRule, UnknownPlacementRule};

/// The entries of a level, and the order in which they leave.
pub struct Placement<K> {
    rule: RuleState,
    slots: HashMap<K, u32>,
    /// By slot; those of `vacant` are left over.
    entries: Vec<Entry<K>>,
    vacant: Vec<u32>,
    idle: IdleOrder,
    /// Slots that are held by somebody who does not use them, and the turn each has kept.
    aside: HashMap<u32, u64>,
    /// Idle slots whose class will change, the next one first.
    expiries: BTreeSet<(u64, u32)>,
    /// The latest time that was passed: what has expired stays so.
    now_ms: u64,
}

enum RuleState {
    Lru,
    TinyLfu(FrequencySketch),
    Arc(ArcLists),
}

struct Entry<K> {
    key: K,
    content: u64,
    claims: Claims,
    /// What the rule says: nothing, an estimate of uses, or which of ARC's lists.
    rank: u8,
}

impl<K: Copy + Ord + Hash + Debug> Placement<K> {
    /// `capacity`, in entries, sizes what a rule remembers; it bounds nothing.
    pub fn new(rule: PlacementRule, capacity: usize) -> Self {
        let rule = match rule {
            PlacementRule::Lru => RuleState::Lru,
            PlacementRule::TinyLfu => RuleState::TinyLfu(FrequencySketch::new(capacity)),
            PlacementRule::Arc => RuleState::Arc(ArcLists::new(capacity)),
        };
        Placement {
            rule,
            slots: HashMap::new(),
            entries: Vec::new(),
            vacant: Vec::new(),
            idle: IdleOrder::new(),
            aside: HashMap::new(),
            expiries: BTreeSet::new(),
            now_ms: 0,
        }
    }

    /// A new entry, idle and the newest. `content` is a hash of what it holds.
    pub fn add(&mut self, entry: K, content: u64, retention: Retention) {
        self.add_held(entry, content, retention);
        self.make_idle(self.slots[&entry]);
    }

    /// A new entry that is in use, as when its bytes are on their way. That is its first use.
    pub fn add_held(&mut self, entry: K, content: u64, retention: Retention) {
        retention.check();
        let rank = match &mut self.rule {
            RuleState::Arc(lists) => lists.add(content),
            RuleState::Lru | RuleState::TinyLfu(_) => 0,
        };
        let new = Entry { key: entry, content, claims: retention.into(), rank };
        let slot = self
            .vacant
            .pop()
            .unwrap_or_else(|| u32::try_from(self.entries.len()).expect("slots are 32 bits wide"));
        match self.entries.get_mut(slot as usize) {
            Some(vacant) => *vacant = new,
            None => self.entries.push(new),
        }
        let known = self.slots.insert(entry, slot);
        assert!(known.is_none(), "entry {entry:?} is added twice");
        self.count_use(content);
    }

    /// The entry is used: it cannot leave until it is released. One that is held may be used again.
    pub fn hold(&mut self, entry: K) {
        let slot = self.slot(entry);
        if self.idle.contains(slot) {
            self.end_idle(slot);
        }
        self.aside.remove(&slot);
        let entry = &mut self.entries[slot as usize];
        if let RuleState::Arc(lists) = &mut self.rule {
            entry.rank = lists.use_again(entry.rank);
        }
        let content = entry.content;
        self.count_use(content);
    }

    /// The entry is held and not used, as while it is copied: it cannot leave until it is released,
    /// and has its turn again then, unless somebody uses it meanwhile.
    pub fn set_aside(&mut self, entry: K) {
        let slot = self.slot(entry);
        if self.idle.contains(slot) {
            self.aside.insert(slot, self.idle.stamp(slot));
            self.end_idle(slot);
        }
    }

    /// Nobody holds the entry any more: idle again, the newest if it was used.
    pub fn release(&mut self, entry: K) {
        let slot = self.slot(entry);
        assert!(!self.idle.contains(slot), "entry {entry:?} is released twice");
        match self.aside.remove(&slot) {
            Some(stamp) => {
                self.idle.put_back(slot, self.place(slot), stamp);
                self.note_expiry(slot);
            }
            None => self.make_idle(slot),
        }
    }

    /// What was asked for the entry.
    pub fn claims(&self, entry: K) -> &Claims {
        &self.entries[self.slot(entry) as usize].claims
    }

    /// One more claim to the entry, held or idle; its turn stays.
    pub fn retain(&mut self, entry: K, claim: Retention) {
        claim.check();
        self.change_claims(entry, |claims| claims.add(claim));
    }

    /// A claim is given up, as when a session ends; the others and its turn stay.
    pub fn withdraw(&mut self, entry: K, claim: Retention) {
        self.change_claims(entry, |claims| claims.remove(claim));
    }

    /// The entry is gone, held or idle; ARC remembers its content.
    pub fn remove(&mut self, entry: K) {
        let slot = self.slot(entry);
        if self.idle.contains(slot) {
            self.end_idle(slot);
        }
        self.aside.remove(&slot);
        let Entry { content, rank, .. } = &self.entries[slot as usize];
        let (content, rank) = (*content, *rank);
        if let RuleState::Arc(lists) = &mut self.rule {
            lists.remove(content, rank);
        }
        self.slots.remove(&entry);
        self.vacant.push(slot);
    }

    /// The idle entry that leaves first. It stays until it is removed.
    pub fn victim(&mut self, now_ms: u64) -> Option<K> {
        self.expire(now_ms);
        self.first().map(|slot| self.entries[slot as usize].key)
    }

    /// Whether the entry that leaves first is no more important than one with these claims.
    pub fn yields_to(&mut self, claims: &Claims, now_ms: u64) -> bool {
        self.expire(now_ms);
        self.first().is_some_and(|first| self.place(first).class <= claims.class(self.now_ms))
    }

    /// The first `most` idle entries in the order in which they would leave, without those that
    /// `skip` names. Costs a look at each entry before the last of them, skipped ones too.
    pub fn oldest(&mut self, now_ms: u64, skip: &dyn Fn(K) -> bool, most: usize) -> Vec<K> {
        self.expire(now_ms);
        let key = |slot: u32| self.entries[slot as usize].key;
        match &self.rule {
            RuleState::Arc(lists) => {
                let slots = lists.in_order(&self.idle, |slot| self.entries[slot as usize].rank);
                slots.map(key).filter(|key| !skip(*key)).take(most).collect()
            }
            RuleState::Lru | RuleState::TinyLfu(_) => {
                let keys = self.idle.in_order().map(key);
                keys.filter(|key| !skip(*key)).take(most).collect()
            }
        }
    }

    /// Whether new content is worth the place of the next victim; asked of a full level, before
    /// the victim. Yes promises that the content is added next; no counts as a use of it. Where
    /// nobody is idle the answer is yes, and there is no victim.
    ///
    /// Content of a higher class than the victim's is, of a lower class is not. Within a class
    /// TinyLFU compares how often both were used, this use among them; new content wins ties, so
    /// that a level of once-used entries is not closed to newer ones.
    pub fn admits(&mut self, content: u64, retention: Retention, now_ms: u64) -> bool {
        retention.check();
        self.expire(now_ms);
        let Some(victim) = self.first() else { return true };
        let (new, old) = (retention.class(self.now_ms), self.place(victim));
        let is_admitted = match &self.rule {
            RuleState::TinyLfu(sketch) if new == old.class => {
                old.rank <= sketch.estimate(content).saturating_add(1)
            }
            _ => old.class <= new,
        };
        match &mut self.rule {
            RuleState::Arc(lists) if is_admitted => lists.expect(content),
            _ if !is_admitted => self.count_use(content),
            _ => {}
        }
        is_admitted
    }

    /// Entries that nobody holds.
    pub fn idle(&self) -> usize {
        self.idle.len()
    }

    /// All entries, held and idle.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn contains(&self, entry: K) -> bool {
        self.slots.contains_key(&entry)
    }

    pub fn is_idle(&self, entry: K) -> bool {
        self.slots.get(&entry).is_some_and(|slot| self.idle.contains(*slot))
    }

    /// Panics unless slots, order, expiries and the rule's books agree.
    pub fn check(&self) {
        assert_eq!(self.slots.len() + self.vacant.len(), self.entries.len(), "slots used and left");
        let vacant = self.vacant.iter().collect::<BTreeSet<_>>();
        assert_eq!(vacant.len(), self.vacant.len(), "a slot is vacant twice");
        for (key, slot) in &self.slots {
            assert_eq!(self.entries[*slot as usize].key, *key, "the entry of slot {slot}");
            assert!(!vacant.contains(slot), "slot {slot} is used and vacant");
        }
        assert!(vacant.iter().all(|slot| !self.idle.contains(**slot)), "a vacant slot is idle");
        let is_held = |slot: &u32| !self.idle.contains(*slot) && !vacant.contains(slot);
        assert!(self.aside.keys().all(is_held), "a slot set aside is held");
        self.idle.check(|slot| self.place(slot));
        let due = self.idle.in_order().filter_map(|slot| Some((self.next_change_ms(slot)?, slot)));
        assert_eq!(due.collect::<BTreeSet<_>>(), self.expiries, "idle entries that will expire");
        if let RuleState::Arc(lists) = &self.rule {
            lists.check(self.slots.values().map(|slot| self.entries[*slot as usize].rank));
        }
    }

    fn slot(&self, entry: K) -> u32 {
        let slot = self.slots.get(&entry).copied();
        slot.unwrap_or_else(|| panic!("entry {entry:?} is not in this level"))
    }

    fn first(&self) -> Option<u32> {
        match &self.rule {
            RuleState::Arc(lists) => {
                lists.in_order(&self.idle, |slot| self.entries[slot as usize].rank).next()
            }
            RuleState::Lru | RuleState::TinyLfu(_) => self.idle.in_order().next(),
        }
    }

    /// Where a slot stands, or would if it were idle. Expired ones leave by age alone.
    fn place(&self, slot: u32) -> Place {
        place(&self.entries[slot as usize], self.now_ms)
    }

    fn make_idle(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        if let RuleState::TinyLfu(sketch) = &self.rule {
            entry.rank = sketch.estimate(entry.content);
        }
        self.idle.push_newest(slot, place(entry, self.now_ms));
        self.note_expiry(slot);
    }

    fn end_idle(&mut self, slot: u32) {
        self.idle.remove(slot);
        self.drop_expiry(slot);
    }

    fn note_expiry(&mut self, slot: u32) {
        self.expiries.extend(self.next_change_ms(slot).map(|change_ms| (change_ms, slot)));
    }

    fn drop_expiry(&mut self, slot: u32) {
        if let Some(change_ms) = self.next_change_ms(slot) {
            self.expiries.remove(&(change_ms, slot));
        }
    }

    fn next_change_ms(&self, slot: u32) -> Option<u64> {
        self.entries[slot as usize].claims.next_change_ms(self.now_ms)
    }

    fn change_claims(&mut self, entry: K, change: impl FnOnce(&mut Claims)) {
        let slot = self.slot(entry);
        let is_idle = self.idle.contains(slot);
        if is_idle {
            self.drop_expiry(slot);
        }
        change(&mut self.entries[slot as usize].claims);
        if is_idle {
            self.idle.change(slot, self.place(slot));
            self.note_expiry(slot);
        }
    }

    /// Moves entries of which a claim has expired by `now_ms` to their new places.
    fn expire(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        while let Some((expires_ms, slot)) = self.expiries.first().copied()
            && expires_ms <= self.now_ms
        {
            self.expiries.remove(&(expires_ms, slot));
            self.idle.change(slot, self.place(slot));
            self.note_expiry(slot);
        }
    }

    /// Tells the sketch. When that halves its counters, ranks that were read from it follow.
    fn count_use(&mut self, content: u64) {
        let RuleState::TinyLfu(sketch) = &mut self.rule else { return };
        if sketch.count(content) {
            self.entries.iter_mut().for_each(|entry| entry.rank /= 2);
            let (entries, now_ms) = (&self.entries, self.now_ms);
            self.idle.change_all(|slot| place(&entries[slot as usize], now_ms));
        }
    }
}

fn place<K>(entry: &Entry<K>, now_ms: u64) -> Place {
    let class = entry.claims.class(now_ms);
    Place { class, rank: if class == Class::EXPIRED { 0 } else { entry.rank } }
}

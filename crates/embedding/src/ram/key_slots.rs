//! Which row of a shard a key has: open addressing over 32-bit slots.
//!
//! A slot has 24 bits of a row's number and 8 bits of its key's hash, so that a key is seldom
//! compared in vain: the keys themselves lie with their rows. At four fifths of its slots it grows
//! by half, not to the double: a row costs 5 to 7.5 bytes here.

use terrace_device::prefetch;

use crate::partition::mix;

#[derive(Default)]
pub(super) struct KeySlots {
    slots: Vec<u32>,
    used: usize,
}

const EMPTY: u32 = u32::MAX;
const ROW_BITS: u32 = 24;
const ROW_MASK: u32 = (1 << ROW_BITS) - 1;
/// Rows of a shard: the last number is that of an empty slot.
pub(super) const ROWS_MAX: usize = ROW_MASK as usize;
const SLOTS_LEAST: usize = 16;

/// A key's hash: where its probing begins, and the bits that a slot keeps.
#[derive(Clone, Copy, Default)]
pub(super) struct KeyHash(u64);

impl KeyHash {
    #[inline]
    pub(super) fn of(key: i64) -> Self {
        // Mixed once more than for partitions and shards, whose bits all keys of a shard share.
        KeyHash(mix(key.cast_unsigned()).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn tag(self) -> u32 {
        (self.0 as u32 >> 24) << ROW_BITS
    }

    fn start(self, slots: usize) -> usize {
        (((self.0 >> 32) * slots as u64) >> 32) as usize
    }
}

impl KeySlots {
    /// The row for which `is_row` is true, of those that the hash allows.
    #[inline]
    pub(super) fn find(&self, hash: KeyHash, is_row: impl Fn(u32) -> bool) -> Option<u32> {
        self.slot(hash, is_row).map(|slot| self.slots[slot] & ROW_MASK)
    }

    /// Begins to bring what [`find`](Self::find) reads.
    #[inline]
    pub(super) fn prefetch(&self, hash: KeyHash) {
        let start = hash.start(self.slots.len());
        if let Some(slot) = self.slots.get(start) {
            prefetch(std::slice::from_ref(slot));
        }
    }

    #[inline]
    fn slot(&self, hash: KeyHash, is_row: impl Fn(u32) -> bool) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let (tag, mut at) = (hash.tag(), hash.start(self.slots.len()));
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return None;
            }
            if slot & !ROW_MASK == tag && is_row(slot & ROW_MASK) {
                return Some(at);
            }
            at = self.next(at);
        }
    }

    /// Adds a row whose key is not there. `hash_of` gives the hashes of all rows when it grows.
    pub(super) fn add(&mut self, hash: KeyHash, row: u32, hash_of: impl Fn(u32) -> KeyHash) {
        if (self.used + 1) * 5 > self.slots.len() * 4 {
            self.grow(hash_of);
        }
        self.put(hash, row);
        self.used += 1;
    }

    /// Takes a row out that is there.
    pub(super) fn remove(&mut self, hash: KeyHash, row: u32, hash_of: impl Fn(u32) -> KeyHash) {
        let mut hole = self.slot(hash, |it| it == row).expect("a row that was added");
        // What was pushed past the hole moves back, so that probing never meets a gap.
        let mut at = hole;
        loop {
            at = self.next(at);
            let slot = self.slots[at];
            if slot == EMPTY {
                break;
            }
            let start = hash_of(slot & ROW_MASK).start(self.slots.len());
            let (from_start, from_hole) = (self.distance(start, at), self.distance(hole, at));
            if from_start >= from_hole {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
        self.used -= 1;
    }

    /// A row has another number now.
    pub(super) fn renumber(&mut self, hash: KeyHash, row: u32, number: u32) {
        let slot = self.slot(hash, |it| it == row).expect("a row that was added");
        self.slots[slot] = hash.tag() | number;
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    fn grow(&mut self, hash_of: impl Fn(u32) -> KeyHash) {
        let slots = (self.slots.len() * 3 / 2).max(SLOTS_LEAST);
        // The old slots are gone before the new ones are taken: rows say all that is needed.
        self.slots = Vec::new();
        self.slots.reserve_exact(slots);
        self.slots.resize(slots, EMPTY);
        (0..self.used as u32).for_each(|row| self.put(hash_of(row), row));
    }

    fn put(&mut self, hash: KeyHash, row: u32) {
        let mut at = hash.start(self.slots.len());
        while self.slots[at] != EMPTY {
            at = self.next(at);
        }
        self.slots[at] = hash.tag() | row;
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// Steps from one slot to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots.len() - from }
    }
}

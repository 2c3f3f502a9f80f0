//! When or how often each row of a shard was used: what an overflowing partition evicts by.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::config::OverflowPolicy;

pub(super) enum RowUses {
    /// Nobody asks.
    None,
    /// The time of the last use, on a clock that counts calls.
    LastUse(Vec<AtomicU32>),
    Count(Vec<AtomicU32>),
}

/// What is older than this looks this old: before a clock of 32 bits comes round.
const OLDEST: u32 = 1 << 31;

impl RowUses {
    /// None where nothing is ever evicted, or by chance.
    pub(super) fn new(policy: OverflowPolicy, is_bounded: bool) -> Self {
        match policy {
            _ if !is_bounded => RowUses::None,
            OverflowPolicy::EvictRandom => RowUses::None,
            OverflowPolicy::EvictOldest => RowUses::LastUse(Vec::new()),
            OverflowPolicy::EvictLeastUsed => RowUses::Count(Vec::new()),
        }
    }

    #[inline]
    pub(super) fn touch(&self, row: u32, now: u32) {
        match self {
            RowUses::None => {}
            RowUses::LastUse(times) => times[row as usize].store(now, Ordering::Relaxed),
            RowUses::Count(counts) => {
                let count = &counts[row as usize];
                count.store(count.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
            }
        }
    }

    pub(super) fn push(&mut self, now: u32) {
        match self {
            RowUses::None => {}
            RowUses::LastUse(times) => push(times, now),
            RowUses::Count(counts) => push(counts, 1),
        }
    }

    pub(super) fn swap_remove(&mut self, row: u32) {
        if let RowUses::LastUse(uses) | RowUses::Count(uses) = self {
            uses.swap_remove(row as usize);
        }
    }

    /// The smaller, the sooner a row is evicted; `None` where only chance decides.
    pub(super) fn worth(&self, row: u32, now: u32) -> Option<u32> {
        match self {
            RowUses::None => None,
            RowUses::LastUse(times) => {
                let age = now.wrapping_sub(times[row as usize].load(Ordering::Relaxed));
                Some(u32::MAX - age)
            }
            RowUses::Count(counts) => Some(counts[row as usize].load(Ordering::Relaxed)),
        }
    }

    /// After an eviction: rows that were used often long ago do not stay for ever.
    pub(super) fn halve_counts(&mut self) {
        if let RowUses::Count(counts) = self {
            for count in counts {
                *count.get_mut() /= 2;
            }
        }
    }

    /// Before the clock comes round.
    pub(super) fn bound_ages(&mut self, now: u32) {
        if let RowUses::LastUse(times) = self {
            for time in times {
                let age = now.wrapping_sub(*time.get_mut());
                *time.get_mut() = now.wrapping_sub(age.min(OLDEST));
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            RowUses::None => 0,
            RowUses::LastUse(uses) | RowUses::Count(uses) => uses.capacity() * size_of::<u32>(),
        }
    }
}

/// Grows by a quarter, not to the double.
fn push(uses: &mut Vec<AtomicU32>, value: u32) {
    if uses.len() == uses.capacity() {
        uses.reserve_exact((uses.len() / 4).max(16));
    }
    uses.push(AtomicU32::new(value));
}

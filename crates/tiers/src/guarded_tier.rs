//! A tier that may fail, behind breakers: an error is a miss, and a tier that keeps failing is left
//! alone for a while.

use std::sync::{Mutex, MutexGuard};

use terrace_cache::PageKey;

use crate::call_guard::{CallGuard, Side};
use crate::circuit_breaker::BreakerConfig;
use crate::page_tier::{FoundRecord, PageTier, Stored, TierRecord, TierUsage};
use crate::tier_counters::{RecordCounters, TierCounters};
use crate::tier_error::TierError;

pub struct GuardedTier {
    tier: Box<dyn PageTier>,
    guard: CallGuard,
    records: Mutex<RecordCounters>,
}

impl GuardedTier {
    pub fn new(tier: Box<dyn PageTier>, breaker: BreakerConfig) -> Self {
        let guard = CallGuard::new(format!("the {} tier", tier.name()), breaker);
        GuardedTier { tier, guard, records: Mutex::default() }
    }

    pub fn name(&self) -> &str {
        self.tier.name()
    }

    /// As [`PageTier::listed`].
    pub fn listed(&self) -> Option<Vec<PageKey>> {
        self.tier.listed()
    }

    pub fn usage(&self) -> TierUsage {
        self.tier.usage()
    }

    pub fn counters(&self) -> TierCounters {
        let records = *self.records();
        let damaged = records.damaged + self.tier.usage().damaged;
        TierCounters {
            records: RecordCounters { damaged, ..records },
            calls: self.guard.counters(),
        }
    }

    /// Which of `keys` it has and would give now.
    pub fn contains_many(&self, keys: &[PageKey]) -> Result<Vec<bool>, TierError> {
        self.guard.call(Side::Reads, || self.tier.contains_many(keys))
    }

    /// As [`PageTier::get_many`]; an error is a miss of those that were not given before it.
    pub fn get_many(&self, keys: &[PageKey], found: &mut FoundRecord<'_>) -> Result<(), TierError> {
        let (mut hits, mut bytes) = (0, 0);
        let mut counted = |index: usize, record: &[u8]| {
            hits += 1;
            bytes += record.len() as u64;
            found(index, record);
        };
        let result = self.guard.call(Side::Reads, || self.tier.get_many(keys, &mut counted));
        let mut counters = self.records();
        counters.hits += hits;
        counters.misses += keys.len() as u64 - hits;
        counters.read_bytes += bytes;
        result
    }

    /// So many records that it gave were damaged, or not what they should be.
    pub fn count_damaged(&self, records: usize) {
        let mut counters = self.records();
        counters.damaged += records as u64;
        counters.hits -= records as u64;
        counters.misses += records as u64;
    }

    /// As [`PageTier::put_many`]; after an error nothing counts as kept.
    pub fn put_many(&self, records: &[TierRecord<'_>]) -> Result<Stored, TierError> {
        let result = self.guard.call(Side::Writes, || self.tier.put_many(records));
        let nothing = || Stored { kept: vec![false; records.len()], evicted: Vec::new() };
        let stored = result.as_ref().ok().cloned().unwrap_or_else(nothing);
        let mut counters = self.records();
        for (record, &kept) in records.iter().zip(&stored.kept) {
            counters.kept += u64::from(kept);
            counters.not_kept += u64::from(!kept);
            counters.written_bytes += if kept { record.bytes.len() as u64 } else { 0 };
        }
        counters.evicted += stored.evicted.len() as u64;
        result
    }

    /// Whoever wants records gone must know when they are not.
    pub fn remove_many(&self, keys: &[PageKey]) -> Result<(), TierError> {
        self.guard.call(Side::Writes, || self.tier.remove_many(keys))
    }

    /// As [`PageTier::remove_prefix`].
    pub fn remove_prefix(&self, prefix: &[u8]) -> Result<usize, TierError> {
        self.guard.call(Side::Writes, || self.tier.remove_prefix(prefix))
    }

    /// As [`PageTier::sync`].
    pub fn sync(&self) -> Result<(), TierError> {
        self.guard.call(Side::Writes, || self.tier.sync())
    }

    fn records(&self) -> MutexGuard<'_, RecordCounters> {
        self.records.lock().expect("nobody panics with the counters in hand")
    }
}

//! A tier that fails on demand, behind its breakers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use terrace_cache::PageKey;
use terrace_tiers::{
    BreakerConfig, FoundRecord, GuardedTier, PageTier, Stored, TierError, TierRecord,
    TierRetention, TierUsage,
};

use crate::pages::{key, keys, record_of};

/// One record, and the error that everything ends with, if any.
#[derive(Default)]
struct Moody {
    error: Mutex<Option<TierError>>,
    calls: AtomicU64,
}

struct Shared(Arc<Moody>);

impl Shared {
    fn answer<T>(&self, answer: T) -> Result<T, TierError> {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        self.0.error.lock().expect("a lock").clone().map_or(Ok(answer), Err)
    }
}

impl PageTier for Shared {
    fn name(&self) -> &str {
        "moody"
    }

    fn listed(&self) -> Option<Vec<PageKey>> {
        None
    }

    fn contains_many(&self, keys: &[PageKey]) -> Result<Vec<bool>, TierError> {
        self.answer(keys.iter().map(|it| *it == key(1)).collect())
    }

    fn get_many(&self, keys: &[PageKey], found: &mut FoundRecord<'_>) -> Result<(), TierError> {
        if let Some(index) = keys.iter().position(|it| *it == key(1)) {
            found(index, &record_of(1));
        }
        self.answer(())
    }

    fn put_many(&self, records: &[TierRecord<'_>]) -> Result<Stored, TierError> {
        let kept = records.iter().map(|record| record.key == key(1)).collect();
        self.answer(Stored { kept, evicted: vec![key(9)] })
    }

    fn remove_many(&self, _keys: &[PageKey]) -> Result<(), TierError> {
        self.answer(())
    }

    fn remove_prefix(&self, _prefix: &[u8]) -> Result<usize, TierError> {
        self.answer(0)
    }

    fn usage(&self) -> TierUsage {
        TierUsage::default()
    }
}

fn guarded(breaker: BreakerConfig) -> (Arc<Moody>, GuardedTier) {
    let moody = Arc::new(Moody::default());
    let tier = GuardedTier::new(Box::new(Shared(Arc::clone(&moody))), breaker);
    (moody, tier)
}

fn count_found(tier: &GuardedTier, pages: &[u64]) -> usize {
    let mut count = 0;
    // What came before an error counts.
    let _ = tier.get_many(&keys(pages.iter().copied()), &mut |_, _| count += 1);
    count
}

fn put(tier: &GuardedTier, pages: &[u64]) -> Result<Stored, TierError> {
    let records: Vec<_> = pages.iter().map(|&page| (key(page), record_of(page))).collect();
    let retention = TierRetention::default();
    let records = records.iter().map(|(key, bytes)| TierRecord { key: *key, bytes, retention });
    tier.put_many(&records.collect::<Vec<_>>())
}

#[test]
fn what_a_tier_does_is_counted() {
    let (_, tier) = guarded(BreakerConfig::default());
    assert_eq!(count_found(&tier, &[1, 2, 3]), 1);
    let stored = put(&tier, &[1, 2]).expect("it works");
    assert_eq!((stored.kept, stored.evicted), (vec![true, false], vec![key(9)]));
    let counters = tier.counters();
    let bytes = record_of(1).len() as u64;
    assert_eq!(
        (counters.records.hits, counters.records.misses, counters.records.read_bytes),
        (1, 2, bytes)
    );
    assert_eq!(
        (counters.records.kept, counters.records.not_kept, counters.records.written_bytes),
        (1, 1, bytes)
    );
    assert_eq!(
        (counters.records.evicted, counters.calls.errors, counters.calls.opened),
        (1, [0; 6], 0)
    );
}

#[test]
fn a_tier_that_keeps_failing_is_left_alone() {
    let (moody, tier) = guarded(BreakerConfig::default());
    *moody.error.lock().expect("a lock") = Some(TierError::TimedOut("late".into()));
    assert_eq!(count_found(&tier, &[1]), 1, "what came before the error counts");
    assert!(tier.contains_many(&keys([1, 2])).is_err());
    assert_eq!(count_found(&tier, &[2]), 0);
    assert!(tier.counters().calls.reads_are_refused);
    assert_eq!(moody.calls.load(Ordering::Relaxed), 3);
    for _ in 0..10 {
        assert_eq!(count_found(&tier, &[1]), 0);
        assert!(tier.contains_many(&keys([1])).is_err());
    }
    assert_eq!(moody.calls.load(Ordering::Relaxed), 3, "nothing was called");
    let counters = tier.counters();
    assert_eq!(
        (counters.calls.refused, counters.calls.opened, counters.calls.errors[1]),
        (20, 1, 3)
    );
}

#[test]
fn a_full_tier_still_gives_what_it_has() {
    let (moody, tier) = guarded(BreakerConfig::default());
    *moody.error.lock().expect("a lock") = Some(TierError::Full("full".into()));
    for _ in 0..5 {
        assert!(put(&tier, &[1]).is_err());
    }
    let error = tier.remove_many(&keys([1])).expect_err("refused");
    assert_eq!(error.kind(), "unavailable");
    *moody.error.lock().expect("a lock") = None;
    assert_eq!(count_found(&tier, &[1]), 1);
    let counters = tier.counters();
    assert_eq!(
        (counters.calls.reads_are_refused, counters.calls.writes_are_refused),
        (false, true)
    );
}

#[test]
fn a_tier_that_answers_again_is_used_again() {
    let soon = BreakerConfig { first_wait_ms: 0, longest_wait_ms: 0, ..BreakerConfig::default() };
    let (moody, tier) = guarded(soon);
    *moody.error.lock().expect("a lock") = Some(TierError::Unavailable("gone".into()));
    (0..3).for_each(|_| assert!(tier.contains_many(&keys([1])).is_err()));
    assert!(tier.counters().calls.reads_are_refused);
    *moody.error.lock().expect("a lock") = None;
    assert_eq!(tier.contains_many(&keys([1])), Ok(vec![true]));
    assert!(!tier.counters().calls.reads_are_refused);
}

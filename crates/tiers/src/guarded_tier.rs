//! A tier that may fail, behind breakers: an error is a miss, and a tier that keeps failing is left
//! alone for a while.
//!
//! Reading and writing have a breaker each: a tier that is full or read-only goes on giving what it
//! has. One line is logged when a breaker opens and one when it closes; everything else is counted.

use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use terrace_cache::PageKey;

use crate::circuit_breaker::{BreakerChange, BreakerConfig, CircuitBreaker, Permit};
use crate::page_tier::{FoundRecord, PageTier, Stored, TierRecord, TierUsage};
use crate::tier_counters::TierCounters;
use crate::tier_error::TierError;

pub struct GuardedTier {
    tier: Box<dyn PageTier>,
    /// Where the breakers' time begins.
    started: Instant,
    books: Mutex<Books>,
}

struct Books {
    reads: CircuitBreaker,
    writes: CircuitBreaker,
    counters: TierCounters,
}

#[derive(Clone, Copy)]
enum Side {
    Reads,
    Writes,
}

impl GuardedTier {
    pub fn new(tier: Box<dyn PageTier>, breaker: BreakerConfig) -> Self {
        let books = Books {
            reads: CircuitBreaker::new(breaker),
            writes: CircuitBreaker::new(breaker),
            counters: TierCounters::default(),
        };
        GuardedTier { tier, started: Instant::now(), books: Mutex::new(books) }
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
        let damaged = self.tier.usage().damaged;
        let books = self.lock();
        TierCounters {
            damaged: books.counters.damaged + damaged,
            reads_are_refused: books.reads.is_open(),
            writes_are_refused: books.writes.is_open(),
            ..books.counters
        }
    }

    /// Which of `keys` it has and would give now.
    pub fn contains_many(&self, keys: &[PageKey]) -> Result<Vec<bool>, TierError> {
        self.call(Side::Reads, || self.tier.contains_many(keys))
    }

    /// As [`PageTier::get_many`]; an error is a miss of those that were not given before it.
    pub fn get_many(&self, keys: &[PageKey], found: &mut FoundRecord<'_>) -> Result<(), TierError> {
        let (mut hits, mut bytes) = (0, 0);
        let mut counted = |index: usize, record: &[u8]| {
            hits += 1;
            bytes += record.len() as u64;
            found(index, record);
        };
        let result = self.call(Side::Reads, || self.tier.get_many(keys, &mut counted));
        let counters = &mut self.lock().counters;
        counters.hits += hits;
        counters.misses += keys.len() as u64 - hits;
        counters.read_bytes += bytes;
        result
    }

    /// So many records that it gave were damaged, or not what they should be.
    pub fn count_damaged(&self, records: usize) {
        let counters = &mut self.lock().counters;
        counters.damaged += records as u64;
        counters.hits -= records as u64;
        counters.misses += records as u64;
    }

    /// As [`PageTier::put_many`]; after an error nothing counts as kept.
    pub fn put_many(&self, records: &[TierRecord<'_>]) -> Result<Stored, TierError> {
        let result = self.call(Side::Writes, || self.tier.put_many(records));
        let nothing = || Stored { kept: vec![false; records.len()], evicted: Vec::new() };
        let stored = result.as_ref().ok().cloned().unwrap_or_else(nothing);
        let counters = &mut self.lock().counters;
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
        self.call(Side::Writes, || self.tier.remove_many(keys))
    }

    /// As [`PageTier::remove_prefix`].
    pub fn remove_prefix(&self, prefix: &[u8]) -> Result<usize, TierError> {
        self.call(Side::Writes, || self.tier.remove_prefix(prefix))
    }

    /// As [`PageTier::sync`].
    pub fn sync(&self) -> Result<(), TierError> {
        self.call(Side::Writes, || self.tier.sync())
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("nobody panics with the books in hand")
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// One call, if the breaker lets it through.
    fn call<T>(
        &self,
        side: Side,
        work: impl FnOnce() -> Result<T, TierError>,
    ) -> Result<T, TierError> {
        let permit = {
            let mut books = self.lock();
            let permit = books.breaker(side).permit(self.now_ms());
            books.counters.refused += u64::from(permit == Permit::Refused);
            permit
        };
        if permit == Permit::Refused {
            let name = self.name();
            let what = format!("{name} keeps failing and is left alone for a while; see the log");
            return Err(TierError::Unavailable(what));
        }
        let begun = Instant::now();
        let result = work();
        let spent_us = begun.elapsed().as_micros() as u64;
        let mut books = self.lock();
        match side {
            Side::Reads => books.counters.read_us += spent_us,
            Side::Writes => books.counters.write_us += spent_us,
        }
        if let Err(error) = &result {
            books.counters.errors[error.kind_index()] += 1;
        }
        let change = books.breaker(side).report(permit, result.is_ok(), self.now_ms());
        books.counters.opened += u64::from(matches!(change, BreakerChange::Opened { .. }));
        drop(books);
        self.log(side, change, result.as_ref().err());
        result
    }

    fn log(&self, side: Side, change: BreakerChange, error: Option<&TierError>) {
        let side = match side {
            Side::Reads => "reading from",
            Side::Writes => "writing to",
        };
        let name = self.name();
        match (change, error) {
            (BreakerChange::Opened { wait_ms }, Some(error)) => tracing::warn!(
                "no more {side} the {name} tier until it answers; trial in {wait_ms} ms: {error}"
            ),
            (BreakerChange::Closed, _) => tracing::info!("{side} the {name} tier again"),
            (_, Some(error)) => tracing::debug!("{side} the {name} tier: {error}"),
            _ => {}
        }
    }
}

impl Books {
    fn breaker(&mut self, side: Side) -> &mut CircuitBreaker {
        match side {
            Side::Reads => &mut self.reads,
            Side::Writes => &mut self.writes,
        }
    }
}

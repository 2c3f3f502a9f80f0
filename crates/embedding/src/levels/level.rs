//! One level of one table: a store behind breakers, with a time limit, and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use terrace_tiers::{BreakerConfig, CallCounters, CallGuard, Side, TierError};

use super::read_threads::ReadThreads;
use crate::row_store::RowStore;

pub struct Level {
    kind: LevelKind,
    store: Arc<dyn RowStore>,
    promotes: bool,
    takes_updates: bool,
    suspends_itself: bool,
    reads: Option<TimedReads>,
    is_suspended: AtomicBool,
    guard: CallGuard,
    hits: AtomicU64,
    misses: AtomicU64,
    written: AtomicU64,
}

struct TimedReads {
    threads: Arc<ReadThreads>,
    time: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LevelKind {
    Ram,
    Redis,
    /// Has every row.
    Persistent,
}

pub struct LevelConfig {
    pub kind: LevelKind,
    /// Whether rows that only the persistent level had are copied up here.
    pub promotes: bool,
    /// Whether updates are for it, by its filters of models.
    pub takes_updates: bool,
    /// Whether a failure suspends it, until whoever checks its rows says otherwise: a server that
    /// comes back may have old ones.
    pub suspends_itself: bool,
    /// For stores that may hang: threads that wait for them, and how long others wait for these.
    pub timed_reads: Option<(Arc<ReadThreads>, Duration)>,
    pub breaker: BreakerConfig,
}

/// What a level has done since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCounters {
    /// Keys that were asked for and found.
    pub hits: u64,
    /// Keys that were asked for and not found, whatever the reason.
    pub misses: u64,
    /// Rows that were put.
    pub written: u64,
    pub calls: CallCounters,
}

impl Level {
    /// `table` is for logs.
    pub fn new(store: Arc<dyn RowStore>, table: &str, config: LevelConfig) -> Self {
        let name = format!("the {} level of {table}", store.name());
        let [hits, misses, written] = [(); 3].map(|()| AtomicU64::new(0));
        Level {
            kind: config.kind,
            store,
            promotes: config.promotes,
            takes_updates: config.takes_updates,
            suspends_itself: config.suspends_itself,
            reads: config.timed_reads.map(|(threads, time)| TimedReads { threads, time }),
            is_suspended: AtomicBool::new(false),
            guard: CallGuard::new(name, config.breaker),
            hits,
            misses,
            written,
        }
    }

    pub fn kind(&self) -> LevelKind {
        self.kind
    }

    pub fn name(&self) -> &str {
        self.store.name()
    }

    pub fn promotes(&self) -> bool {
        self.promotes
    }

    pub fn takes_updates(&self) -> bool {
        self.takes_updates
    }

    /// For what is not a look-up: scans, counts, loading.
    pub fn store(&self) -> &Arc<dyn RowStore> {
        &self.store
    }

    /// While it is, look-ups pass it by: its rows may be older than those below. Writes go on.
    pub fn set_suspended(&self, is_suspended: bool) {
        self.is_suspended.store(is_suspended, Ordering::Release);
    }

    pub fn is_suspended(&self) -> bool {
        self.is_suspended.load(Ordering::Acquire)
    }

    pub fn counters(&self) -> LevelCounters {
        LevelCounters {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            written: self.written.load(Ordering::Relaxed),
            calls: self.guard.counters(),
        }
    }

    /// As [`RowStore::get_many`].
    pub fn get_many(
        &self,
        keys: &[i64],
        rows: &mut [f32],
        found: &mut [bool],
    ) -> Result<(), TierError> {
        let asked = found.iter().filter(|found| !**found).count();
        if self.is_suspended() {
            self.misses.fetch_add(asked as u64, Ordering::Relaxed);
            return Ok(());
        }
        let result = self.guard.call(Side::Reads, || match &self.reads {
            None => self.store.get_many(keys, rows, found),
            Some(TimedReads { threads, time }) => {
                threads.get_many(&self.store, keys, rows, found, *time)
            }
        });
        self.note(&result);
        let missed = found.iter().filter(|found| !**found).count();
        self.hits.fetch_add((asked - missed) as u64, Ordering::Relaxed);
        self.misses.fetch_add(missed as u64, Ordering::Relaxed);
        result
    }

    /// As [`RowStore::put_many`].
    pub fn put_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        let result = self.guard.call(Side::Writes, || self.store.put_many(keys, rows));
        self.note(&result);
        result?;
        self.written.fetch_add(keys.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// As [`RowStore::add_many`].
    pub fn add_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        let result = self.guard.call(Side::Writes, || self.store.add_many(keys, rows));
        self.note(&result);
        result?;
        self.written.fetch_add(keys.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// As [`RowStore::remove_many`].
    pub fn remove_many(&self, keys: &[i64]) -> Result<(), TierError> {
        let result = self.guard.call(Side::Writes, || self.store.remove_many(keys));
        self.note(&result);
        result
    }

    fn note(&self, result: &Result<(), TierError>) {
        let is_gone = matches!(result, Err(TierError::Unavailable(_) | TierError::TimedOut(_)));
        if self.suspends_itself && is_gone {
            self.set_suspended(true);
        }
    }
}

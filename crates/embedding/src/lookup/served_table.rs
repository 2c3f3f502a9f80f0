//! A table that is looked up in: its hot caches, its levels, and what updates do to both.
//!
//! A look-up gives each key its row, or the table's default value. Only real rows go up from level
//! to level, never a default.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use terrace_device::Device;
use terrace_kernels::CacheWrite;
use terrace_tiers::TierError;

use super::fill_threads::{FillThreads, FillsFull};
use super::lookup_stats::{LookupStats, TableCounters};
use super::table_cache::{CacheHolds, TableCache, TableCacheConfig};
use crate::error::Error;
use crate::levels::{FillGate, FillTicket, Level, LevelKind, TableLevels};
use crate::table_spec::TableSpec;

pub struct ServedTable {
    levels: TableLevels,
    /// One for each device.
    caches: Vec<TableCache>,
    gate: FillGate,
    fills: Arc<FillThreads>,
    /// Whether this server's own rows lag behind their updates: then none go up to Redis, where
    /// another server may have written newer ones.
    lags: AtomicBool,
    counters: Mutex<TableCounters>,
}

pub struct ServedTableConfig {
    pub levels: TableLevels,
    pub caches: Vec<(Device, TableCacheConfig)>,
    pub fills: Arc<FillThreads>,
}

/// Whom an update is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateScope {
    /// The levels of this server: persistent, RAM and hot caches.
    Own,
    /// Redis, which servers share: one of them writes it.
    Shared,
}

impl UpdateScope {
    /// For metrics.
    pub fn name(self) -> &'static str {
        match self {
            UpdateScope::Own => "own",
            UpdateScope::Shared => "shared",
        }
    }
}

/// Missing rows that were fetched, and what became of them.
pub(super) struct FetchedRows {
    /// `[keys, dim]`
    pub(super) rows: Vec<f32>,
    pub(super) defaults: usize,
    pub(super) unanswered: usize,
}

/// Keys of a fill that is done by others; what was on its way already is in neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deferred {
    pub(super) queued: usize,
    pub(super) dropped: usize,
}

impl ServedTable {
    pub fn new(config: ServedTableConfig) -> Result<Self, Error> {
        let caches = config.caches.iter().map(|(device, cache)| TableCache::new(device, cache));
        Ok(ServedTable {
            caches: caches.collect::<Result<_, _>>()?,
            levels: config.levels,
            gate: FillGate::default(),
            fills: config.fills,
            lags: AtomicBool::new(false),
            counters: Mutex::default(),
        })
    }

    pub fn spec(&self) -> &TableSpec {
        self.levels.spec()
    }

    pub fn levels(&self) -> &TableLevels {
        &self.levels
    }

    pub fn caches(&self) -> &[TableCache] {
        &self.caches
    }

    pub fn counters(&self) -> TableCounters {
        *self.lock()
    }

    pub(super) fn count(&self, stats: &LookupStats, begun: Instant) {
        self.lock().add(stats, begun.elapsed().as_micros() as u64);
    }

    /// Counts a look-up of keys that were all in a hot cache, which others asked.
    pub fn count_cached(&self, keys: usize, begun: Instant) {
        let stats = LookupStats { keys, unique: keys, hits: keys, ..LookupStats::default() };
        self.count(&stats, begun);
    }

    /// Fetches the rows of different keys from the levels, and brings the real ones up: into a hot
    /// cache, and from the persistent level into those that want them.
    pub(super) fn fetch(&self, cache: Option<usize>, keys: &[i64]) -> Result<FetchedRows, Error> {
        let (ticket, of_redis) = (self.gate.begin_fill(), self.gate.begin_fill());
        let dim = self.spec().dim;
        let (mut rows, mut found) = (vec![0.0; keys.len() * dim], vec![false; keys.len()]);
        let fetched = self.levels.fetch(keys, &mut rows, &mut found);
        let pick = |indices: &mut dyn Iterator<Item = usize>| {
            let indices: Vec<usize> = indices.collect();
            let rows = indices.iter().flat_map(|index| &rows[index * dim..][..dim]).copied();
            let keys: Vec<i64> = indices.iter().map(|index| keys[*index]).collect();
            (keys, rows.collect::<Vec<f32>>())
        };
        let (promoted, written) = self.gate.finish_fill(ticket, keys, |fresh| {
            let persistent = fetched.persistent.iter().map(|index| *index as usize);
            let promoted = pick(&mut persistent.filter(|index| fresh[*index]));
            self.promote(LevelKind::Ram, &promoted.0, &promoted.1);
            let written = cache.map_or(Ok(0), |cache| {
                let real = (0..keys.len()).filter(|index| found[*index] && fresh[*index]);
                let (keys, rows) = pick(&mut { real });
                let cache = &self.caches[cache];
                cache.cache().write(&keys, &rows, cache.fill_how())
            });
            (promoted, written)
        });
        let (keys, promoted_rows) = promoted;
        if !self.lags.load(Ordering::Relaxed) {
            self.promote(LevelKind::Redis, &keys, &promoted_rows);
        }
        self.take_back(of_redis, &keys);
        written?;
        Ok(FetchedRows { rows, defaults: fetched.defaults, unanswered: fetched.unanswered })
    }

    /// Has missing rows brought into a hot cache by others; how many keys they took on, and how
    /// many were left out because too many fills are waiting.
    pub(super) fn defer(self: &Arc<Self>, cache: usize, keys: &[i64]) -> Deferred {
        let keys = self.caches[cache].claim(keys);
        let count = keys.len();
        if count == 0 {
            return Deferred::default();
        }
        let (table, claimed) = (Arc::clone(self), keys.clone());
        let fill = move || {
            if let Err(error) = table.fetch(Some(cache), &keys) {
                let table = table.spec().tag.as_str();
                tracing::warn!("rows of {table} did not come into its hot cache: {error}");
            }
            table.caches[cache].release(&keys);
        };
        match self.fills.submit(Box::new(fill)) {
            Ok(()) => Deferred { queued: count, dropped: 0 },
            Err(FillsFull) => {
                self.caches[cache].release(&claimed);
                self.lock().dropped_fills += 1;
                Deferred { queued: 0, dropped: count }
            }
        }
    }

    /// A level that fails to take rows is counted there; it is a cache.
    fn promote(&self, kind: LevelKind, keys: &[i64], rows: &[f32]) {
        if let Some(level) = self.levels.level(kind)
            && level.promotes()
            // Then they may be of another version than those that are there.
            && !level.is_suspended()
            && !keys.is_empty()
        {
            let _ = level.add_many(keys, rows);
        }
    }

    /// Nobody waits in the gate for Redis. So what was updated while it was promoted is taken back:
    /// Redis may have evicted the new row before the old one came.
    fn take_back(&self, ticket: FillTicket, keys: &[i64]) {
        let old = self.gate.finish_fill(ticket, keys, |fresh| {
            let old = keys.iter().zip(fresh).filter(|(_, fresh)| !**fresh);
            old.map(|(key, _)| *key).collect::<Vec<i64>>()
        });
        if let Some(level) = self.levels.level(LevelKind::Redis)
            && level.promotes()
            && !old.is_empty()
        {
            let _ = level.remove_many(&old);
        }
    }

    /// Writes new rows: each level in turn, the slowest first, and hot caches last. After an error
    /// it is to be called again with the same rows · rows: `[keys, dim]`
    pub fn update(
        &self,
        scope: UpdateScope,
        keys: &[i64],
        rows: &[f32],
    ) -> Result<(), UpdateError> {
        let kinds: &[LevelKind] = match scope {
            UpdateScope::Own => &[LevelKind::Persistent, LevelKind::Ram],
            UpdateScope::Shared => &[LevelKind::Redis],
        };
        let levels = kinds.iter().filter_map(|kind| self.levels.level(*kind));
        if scope == UpdateScope::Own {
            self.gate.begin_update(keys);
        }
        for level in levels.filter(|level| level.takes_updates()) {
            let written = level.put_many(keys, rows);
            if written.is_err() && scope == UpdateScope::Own {
                self.gate.drop_update(keys);
            }
            written?;
        }
        self.lock().updated += keys.len() as u64;
        if scope == UpdateScope::Own {
            // What no level takes must not show up in hot caches, to vanish with the next refresh.
            let is_taken = self.levels.levels().iter().any(Level::takes_updates);
            self.gate.finish_update(keys, || {
                if !is_taken {
                    return Ok(());
                }
                self.caches.iter().try_for_each(|cache| {
                    cache.cache().write(keys, rows, CacheWrite::Present).map(|_| ())
                })
            })?;
        }
        Ok(())
    }

    /// Whether updates of this server's own levels have not all come.
    pub fn set_lags(&self, lags: bool) {
        self.lags.store(lags, Ordering::Relaxed);
    }

    /// Brings rows of some sets of a hot cache up to date; how many keys they had.
    pub fn refresh(&self, cache: usize, sets: std::ops::Range<u32>) -> Result<usize, Error> {
        let cache = self.caches[cache].cache();
        let keys = cache.keys_of(sets)?;
        let ticket = self.gate.begin_fill();
        let dim = self.spec().dim;
        let (mut rows, mut found) = (vec![0.0; keys.len() * dim], vec![false; keys.len()]);
        self.levels.fetch(&keys, &mut rows, &mut found);
        self.gate.finish_fill(ticket, &keys, |fresh| {
            let known = (0..keys.len()).filter(|index| found[*index] && fresh[*index]);
            let (keys, rows): (Vec<i64>, Vec<&[f32]>) =
                known.map(|index| (keys[index], &rows[index * dim..][..dim])).unzip();
            cache.write(&keys, &rows.concat(), CacheWrite::Present)
        })?;
        Ok(keys.len())
    }

    /// Fills a hot cache from the level that has the most rows, as far as it has room; how many
    /// came. Look-ups may go on meanwhile.
    pub fn warm_up(&self, cache: usize) -> Result<u64, UpdateError> {
        let Some(level) = self.levels.levels().last() else { return Ok(0) };
        let table_cache = &self.caches[cache];
        let room = match table_cache.holds() {
            CacheHolds::All => u64::MAX,
            CacheHolds::Recent => table_cache.cache().slots() as u64,
        };
        let (mut warmed, mut failure) = (0, None);
        let full = TierError::Full("the hot cache is warm".to_owned());
        let mut each = |keys: &[i64], rows: &[f32]| {
            if warmed >= room {
                return Err(full.clone());
            }
            // What is read here may be updated before it is written: then it is left out.
            let ticket = self.gate.begin_fill();
            let (mut rows, mut found) = (rows.to_vec(), vec![false; keys.len()]);
            let again = level.get_many(keys, &mut rows, &mut found);
            let written = self.gate.finish_fill(ticket, keys, |fresh| {
                let dim = self.spec().dim;
                let known = (0..keys.len()).filter(|index| found[*index] && fresh[*index]);
                let (keys, rows): (Vec<i64>, Vec<&[f32]>) =
                    known.map(|index| (keys[index], &rows[index * dim..][..dim])).unzip();
                warmed += keys.len() as u64;
                table_cache.cache().write(&keys, &rows.concat(), table_cache.fill_how())
            });
            match written {
                Ok(_) => again,
                Err(error) => {
                    failure = Some(error);
                    Err(full.clone())
                }
            }
        };
        let scanned = level.store().scan(WARMED_AT_ONCE, &mut each);
        match (failure, scanned) {
            (Some(error), _) => Err(error.into()),
            (None, Err(error)) if error != full => Err(error.into()),
            _ => Ok(warmed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, TableCounters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const WARMED_AT_ONCE: usize = 16 << 10;

/// Why an update did not reach every level.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    #[error(transparent)]
    Level(#[from] TierError),
    #[error(transparent)]
    Cache(#[from] Error),
}

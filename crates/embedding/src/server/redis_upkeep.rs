//! Fills the Redis level, and fills it again when nodes have restarted, on a thread of its own.
//!
//! Rows of a node that has restarted may be lost or old. Where a persistent level is below, they
//! are taken away and copied up again, and look-ups pass Redis by until they are gone. They are
//! copied only when this server's own updates have all come: what was in Redis may have been newer
//! than what this server had. Where nothing is below, missing rows come from the files, and then
//! all updates since are read again.
//!
//! Servers of several versions of a table may share a cluster for a while: who starts last fills it
//! with its rows, and the others pass it by from then on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use terrace_tiers::TierError;

use super::cache_refresh::CacheRefresh;
use super::table_plan::TableFiles;
use super::table_start::RowSource;
use super::ticker::{Stop, Tick, Ticker};
use super::update_feeds::{FedTable, UpdateFeeds};
use crate::feed::ConsumerCounters;
use crate::levels::{Level, LevelKind};
use crate::load::LoadError;
use crate::redis::{PartitionRun, RedisStore, Vouched};
use crate::row_store::RowStore;

/// A table in Redis.
pub struct RedisKept {
    pub fed: Arc<FedTable>,
    pub store: Arc<RedisStore>,
    /// Of the files that its rows began with.
    pub version: String,
    pub files: Option<Arc<TableFiles>>,
    /// Rows that it is filled with; 0: others fill it.
    pub rows: u64,
    /// Partitions that were filled, and are trusted when their updates have come.
    pub filled: Mutex<Vec<PartitionRun>>,
    pub owner: Mutex<Owner>,
}

/// Whose rows are in Redis, as far as this server knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// It has not looked, and takes over.
    #[default]
    Unknown,
    /// Those of its version.
    Own,
    /// Those of another version, which a server has brought that started later.
    Other,
}

pub struct RedisUpkeep {
    tables: Vec<RedisKept>,
    /// `None` before there are any.
    feeds: Option<Arc<UpdateFeeds>>,
    /// `None` before there is one.
    refresh: Option<Arc<CacheRefresh>>,
}

/// Why a table in Redis is not what it should be yet.
#[derive(Debug, thiserror::Error)]
enum RepairError {
    #[error(transparent)]
    Redis(#[from] TierError),
    #[error(transparent)]
    Source(#[from] LoadError),
    #[error(transparent)]
    Feed(#[from] crate::feed::FeedError),
    #[error("the server ends")]
    Over,
}

/// Between two questions whether nodes have restarted, for so many partitions.
const INTERVAL: Duration = Duration::from_secs(1);
const PARTITIONS_AT_ONCE: usize = 512;
/// While look-ups pass it by.
const SUSPENDED_INTERVAL: Duration = Duration::from_millis(100);
const WAIT: Duration = Duration::from_millis(100);
/// An update may have been in Redis, and not yet known to be behind here, for so long; and other
/// servers have not yet seen what is said there.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

impl RedisUpkeep {
    /// Where another level has all rows, look-ups pass Redis by until its rows are known to be
    /// right: they may be of other files.
    pub fn new(tables: Vec<RedisKept>) -> Self {
        for kept in tables.iter().filter(|kept| kept.persistent().is_some()) {
            kept.level().set_suspended(true);
        }
        RedisUpkeep { tables, feeds: None, refresh: None }
    }

    /// Fills what has no level below it, before anybody looks something up. Updates come later.
    pub fn fill_first(&self) {
        for kept in self.tables.iter().filter(|kept| kept.persistent().is_none()) {
            let untrusted = kept.store.untrusted(&kept.version).map_err(RepairError::from);
            let filled = untrusted.and_then(|runs| self.refill(kept, &runs, &Stop::default()));
            if let Err(error) = filled {
                let table = kept.fed.table.spec().tag.as_str();
                tracing::warn!("redis: {table} is filled when it can be reached: {error}");
            }
        }
    }

    pub fn start(
        mut self,
        feeds: Option<Arc<UpdateFeeds>>,
        refresh: &Arc<CacheRefresh>,
    ) -> std::io::Result<Ticker> {
        self.feeds = feeds;
        self.refresh = Some(Arc::clone(refresh));
        let partitions: usize = self.tables.iter().map(|kept| kept.store.partitions()).sum();
        let interval = INTERVAL * partitions.div_ceil(PARTITIONS_AT_ONCE).max(1) as u32;
        Ticker::start("redis-upkeep", move |stop| {
            for kept in &self.tables {
                if stop.is_over() {
                    return Tick::Never;
                }
                self.check(kept, stop);
            }
            let is_suspended = self.tables.iter().any(|kept| kept.level().is_suspended());
            Tick::After(if is_suspended { SUSPENDED_INTERVAL } else { interval })
        })
    }

    fn check(&self, kept: &RedisKept, stop: &Stop) {
        let table = kept.fed.table.spec().tag.as_str();
        let checked = kept.store.untrusted(&kept.version).map_err(RepairError::from);
        let repaired = checked.and_then(|untrusted| {
            if untrusted.is_empty() {
                *kept.owner() = Owner::Own;
                kept.level().set_suspended(false);
                return Ok(());
            }
            let is_other = untrusted.iter().any(|run| run.vouched == Vouched::OtherVersion);
            if is_other && *kept.owner() == Owner::Own {
                tracing::warn!(
                    "redis: another server has brought other files of {table}; they are not used \
                     here, and this server fills Redis again when it is restarted"
                );
                *kept.owner() = Owner::Other;
            }
            if *kept.owner() == Owner::Other {
                kept.level().set_suspended(kept.persistent().is_some());
                return Ok(());
            }
            let count = untrusted.len();
            tracing::info!("redis: {count} partitions of {table} are filled");
            self.repair(kept, &untrusted, stop)?;
            // Hot caches may have taken rows from it before anybody knew.
            self.refresh.iter().for_each(|refresh| refresh.request());
            tracing::info!("redis: {count} partitions of {table} are as they should be");
            Ok(())
        });
        match repaired {
            Ok(()) | Err(RepairError::Over) => {}
            Err(error) => {
                tracing::debug!("redis: {table} is looked after later: {error}");
                kept.level().set_suspended(kept.persistent().is_some());
            }
        }
    }

    fn repair(
        &self,
        kept: &RedisKept,
        untrusted: &[PartitionRun],
        stop: &Stop,
    ) -> Result<(), RepairError> {
        self.refill(kept, untrusted, stop)?;
        if kept.persistent().is_none() {
            self.replay(kept, stop)?;
        }
        kept.store.trust(untrusted, &kept.version)?;
        kept.filled().clear();
        *kept.owner() = Owner::Own;
        Ok(())
    }

    fn refill(
        &self,
        kept: &RedisKept,
        untrusted: &[PartitionRun],
        stop: &Stop,
    ) -> Result<(), RepairError> {
        let (is_filled, below) = (kept.rows > 0, kept.persistent());
        // Whatever is said of it now: who filled it has taken away what was said before.
        let is_same = |a: &PartitionRun, b: &PartitionRun| {
            (a.partition, &a.run_id) == (b.partition, &b.run_id)
        };
        let is_due = |run: &&PartitionRun| !kept.filled().iter().any(|it| is_same(it, run));
        let due: Vec<PartitionRun> = untrusted.iter().filter(is_due).cloned().collect();
        let has_to_go = |run: &&PartitionRun| match run.vouched {
            Vouched::Nobody => is_filled,
            Vouched::OtherVersion => true,
            // Without a level below, what may be old is better than nothing.
            Vouched::EarlierRun => below.is_some(),
        };
        let gone: Vec<PartitionRun> = due.iter().filter(has_to_go).cloned().collect();
        kept.store.clear(&gone, &kept.version)?;
        if gone.iter().any(|run| run.vouched == Vouched::OtherVersion) {
            // Servers of that version may bring rows up until they have seen it.
            if stop.wait(SETTLED_AFTER) {
                return Err(RepairError::Over);
            }
            kept.store.clear(&gone, &kept.version)?;
        }
        kept.level().set_suspended(false);
        if is_filled && !due.is_empty() {
            if below.is_some() {
                self.await_own_updates(stop)?;
            }
            self.fill(kept, &due, stop)?;
        }
        *kept.filled() = untrusted.to_vec();
        Ok(())
    }

    fn fill(
        &self,
        kept: &RedisKept,
        partitions: &[PartitionRun],
        stop: &Stop,
    ) -> Result<(), RepairError> {
        let spec = kept.fed.table.spec();
        let persistent = kept.persistent().map(Level::store);
        let source = RowSource { spec, files: kept.files.as_deref(), persistent };
        let over = TierError::Unavailable("the server ends".to_owned());
        let copied = source.copy(kept.rows, &mut |keys, rows| {
            if stop.is_over() {
                return Err(over.clone());
            }
            let are_in = kept.store.are_in(keys, partitions);
            let picked = || are_in.iter().enumerate().filter(|it| *it.1).map(|it| it.0);
            let keys: Vec<i64> = picked().map(|index| keys[index]).collect();
            let row = |index: usize| &rows[index * spec.dim..][..spec.dim];
            kept.store.add_many(&keys, &picked().flat_map(row).copied().collect::<Vec<f32>>())
        });
        match copied {
            Err(LoadError::Level(error)) if error == over => Err(RepairError::Over),
            other => Ok(other?),
        }
    }

    /// Until the persistent level has what Redis may have had.
    fn await_own_updates(&self, stop: &Stop) -> Result<(), RepairError> {
        let Some(feeds) = &self.feeds else { return Ok(()) };
        let settled = Instant::now() + SETTLED_AFTER;
        while feeds.own().applied_until.is_none_or(|until| until < settled) {
            if stop.wait(WAIT) {
                return Err(RepairError::Over);
            }
        }
        Ok(())
    }

    fn replay(&self, kept: &RedisKept, stop: &Stop) -> Result<(), RepairError> {
        let Some(feeds) = &self.feeds else { return Ok(()) };
        let settled = Instant::now() + SETTLED_AFTER;
        let replay = feeds.replay_shared(&kept.fed)?;
        // At its end, too: what it has read and not written must not take the place of newer rows.
        let is_over = |it: &ConsumerCounters| {
            it.at_end_for.is_some() && it.applied_until.is_some_and(|until| until >= settled)
        };
        while !is_over(&replay.counters()) {
            if stop.wait(WAIT) {
                return Err(RepairError::Over);
            }
        }
        Ok(())
    }
}

impl RedisKept {
    fn level(&self) -> &Level {
        let level = self.fed.table.levels().level(LevelKind::Redis);
        level.expect("a table that is kept in Redis")
    }

    fn filled(&self) -> MutexGuard<'_, Vec<PartitionRun>> {
        self.filled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owner(&self) -> MutexGuard<'_, Owner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn persistent(&self) -> Option<&Level> {
        self.fed.table.levels().level(LevelKind::Persistent)
    }
}

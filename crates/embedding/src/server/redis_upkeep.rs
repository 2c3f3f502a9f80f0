//! Fills the Redis level, and fills it again when nodes have restarted, on a thread of its own.
//!
//! Rows of a node that has restarted may be lost or old. Where a persistent level is below, they
//! are taken away and copied up again, and look-ups pass Redis by until they are gone. They are
//! copied only when this server's own updates have all come: what was in Redis may have been newer
//! than what this server had. Where nothing is below, missing rows come from the files, and then
//! all updates since are read again.
//!
//! Several versions of a table may share a cluster for a while, of several servers or in one: who
//! starts last fills it with its rows, and the others pass it by from then on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_tiers::TierError;

use super::cache_refresh::CacheRefresh;
use super::redis_kept::{Owner, RedisKept, persistent_level, redis_level};
use super::table_start::RowSource;
use super::ticker::{Stop, Tick, Ticker};
use super::update_feeds::{FeedSource, UpdateFeeds};
use crate::feed::ConsumerCounters;
use crate::levels::Level;
use crate::load::LoadError;
use crate::lookup::ServedTable;
use crate::redis::{PartitionRun, Vouched};
use crate::row_store::RowStore as _;

pub struct RedisUpkeep {
    tables: Vec<Arc<RedisKept>>,
    /// `None` where no updates come.
    source: Option<FeedSource>,
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
    #[error("it is served no more, or another version takes its place")]
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
    pub fn new(tables: Vec<Arc<RedisKept>>, source: Option<FeedSource>) -> Self {
        for table in tables.iter().filter_map(|kept| kept.table()) {
            redis_level(&table).set_suspended(persistent_level(&table).is_some());
        }
        RedisUpkeep { tables, source, refresh: None }
    }

    /// Fills what has no level below it, before anybody looks something up. Updates come later.
    pub fn fill_first(&self) {
        for kept in &self.tables {
            let Some(table) = kept.table().filter(|it| persistent_level(it).is_none()) else {
                continue;
            };
            let untrusted = kept.store.untrusted(&kept.version).map_err(RepairError::from);
            let repair = Repair { kept, table: &table, stop: &Stop::default() };
            if let Err(error) = untrusted.and_then(|runs| self.refill(&repair, &runs)) {
                let table = &kept.fed.spec.tag;
                tracing::warn!("redis: {table} is filled when it can be reached: {error}");
            }
        }
    }

    pub fn start(mut self, refresh: &Arc<CacheRefresh>) -> std::io::Result<Ticker> {
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
            let is_suspended = self.tables.iter().any(|kept| {
                let table = kept.table().filter(|_| !kept.is_out());
                table.is_some_and(|table| redis_level(&table).is_suspended())
            });
            Tick::After(if is_suspended { SUSPENDED_INTERVAL } else { interval })
        })
    }

    fn check(&self, kept: &RedisKept, stop: &Stop) {
        let Some(table) = kept.table().filter(|_| !kept.is_out()) else { return };
        let (level, has_below) = (redis_level(&table), persistent_level(&table).is_some());
        let repair = Repair { kept, table: &table, stop };
        let checked = kept.store.untrusted(&kept.version).map_err(RepairError::from);
        match checked.and_then(|untrusted| self.follow(&repair, &untrusted)) {
            Ok(()) | Err(RepairError::Over) => {}
            Err(error) => {
                let tag = &kept.fed.spec.tag;
                tracing::debug!("redis: {tag} is looked after later: {error}");
                level.set_suspended(has_below);
            }
        }
        if kept.is_out() {
            level.set_suspended(has_below);
        }
    }

    fn follow(&self, repair: &Repair<'_>, untrusted: &[PartitionRun]) -> Result<(), RepairError> {
        let Repair { kept, table, .. } = *repair;
        let tag = &kept.fed.spec.tag;
        if untrusted.is_empty() {
            kept.set_owner(Owner::Own);
            redis_level(table).set_suspended(false);
            return Ok(());
        }
        let is_other = untrusted.iter().any(|run| run.vouched == Vouched::OtherVersion);
        if is_other && kept.who_owns() == Owner::Own {
            tracing::warn!(
                "redis: another server has brought other files of {tag}; they are not used here, \
                 and this server fills Redis again when it is restarted"
            );
            kept.set_owner(Owner::Other);
        }
        if kept.who_owns() == Owner::Other {
            redis_level(table).set_suspended(persistent_level(table).is_some());
            return Ok(());
        }
        let count = untrusted.len();
        tracing::info!("redis: {count} partitions of {tag} are filled");
        self.repair(repair, untrusted)?;
        // Hot caches may have taken rows from it before anybody knew.
        self.refresh.iter().for_each(|refresh| refresh.request());
        tracing::info!("redis: {count} partitions of {tag} are as they should be");
        Ok(())
    }

    fn repair(&self, repair: &Repair<'_>, untrusted: &[PartitionRun]) -> Result<(), RepairError> {
        let kept = repair.kept;
        self.refill(repair, untrusted)?;
        if persistent_level(repair.table).is_none() {
            self.replay(repair)?;
        }
        repair.check()?;
        kept.store.trust(untrusted, &kept.version)?;
        kept.filled().clear();
        kept.set_owner(Owner::Own);
        Ok(())
    }

    fn refill(&self, repair: &Repair<'_>, untrusted: &[PartitionRun]) -> Result<(), RepairError> {
        let Repair { kept, table, .. } = *repair;
        let (is_filled, below) = (kept.rows > 0, persistent_level(table));
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
            let until = Instant::now() + SETTLED_AFTER;
            repair.wait_until(|| Instant::now() >= until)?;
            kept.store.clear(&gone, &kept.version)?;
        }
        repair.check()?;
        redis_level(table).set_suspended(false);
        if is_filled && !due.is_empty() {
            if below.is_some() && self.source.is_some() {
                // Until the persistent level has what Redis may have had.
                let settled = Instant::now() + SETTLED_AFTER;
                repair.wait_until(|| kept.fed.is_applied_until(settled))?;
            }
            fill(repair, &due)?;
        }
        *kept.filled() = untrusted.to_vec();
        Ok(())
    }

    fn replay(&self, repair: &Repair<'_>) -> Result<(), RepairError> {
        let Some(source) = &self.source else { return Ok(()) };
        let settled = Instant::now() + SETTLED_AFTER;
        let replay = UpdateFeeds::replay_shared(source, &repair.kept.fed)?;
        let Some(replay) = replay else { return Ok(()) };
        // At its end, too: what it has read and not written must not take the place of newer rows.
        let is_over = |it: &ConsumerCounters| {
            it.at_end_for.is_some() && it.applied_until.is_some_and(|until| until >= settled)
        };
        repair.wait_until(|| is_over(&replay.counters()))
    }
}

/// A table that is filled again.
#[derive(Clone, Copy)]
struct Repair<'a> {
    kept: &'a RedisKept,
    table: &'a ServedTable,
    stop: &'a Stop,
}

impl Repair<'_> {
    fn check(&self) -> Result<(), RepairError> {
        if self.kept.is_out() || self.stop.is_over() { Err(RepairError::Over) } else { Ok(()) }
    }

    fn wait_until(&self, holds: impl Fn() -> bool) -> Result<(), RepairError> {
        while !holds() {
            self.check()?;
            self.stop.wait(WAIT);
        }
        self.check()
    }
}

fn fill(repair: &Repair<'_>, partitions: &[PartitionRun]) -> Result<(), RepairError> {
    let Repair { kept, table, .. } = *repair;
    let spec = table.spec();
    let persistent = persistent_level(table).map(Level::store);
    let source = RowSource { spec, files: kept.files.as_deref(), persistent };
    let over = TierError::Unavailable("it is served no more".to_owned());
    let copied = source.copy(kept.rows, &mut |keys, rows| {
        repair.check().map_err(|_| over.clone())?;
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

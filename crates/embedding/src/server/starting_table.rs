//! A table that was loaded and filled, and is not served yet.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::cache_refresh::RefreshPlan;
use super::fed_table::{FedTable, FedTableConfig};
use super::live_table::{LiveTableConfig, TableIdentity};
use super::placement::Place;
use super::redis_kept::RedisKept;
use super::storage_claims::StorageClaim;
use super::table_plan::{TableFiles, TablePlan};
use super::table_start::StartedTable;
use super::table_upkeep::TableUpkeep;
use crate::levels::LevelKind;
use crate::lookup::ServedTable;
use crate::table_record::TableRecord;

pub struct StartingTable {
    started: StartedTable,
    fed: Arc<FedTable>,
    files: Option<Arc<TableFiles>>,
    version: String,
    identity: TableIdentity,
    placed: Option<(Place, u64)>,
    claim: Option<StorageClaim>,
}

/// Of a cache's sets in one step of a walk that nobody configured.
const REQUESTED_SHARE: f64 = 0.01;

impl StartingTable {
    /// Takes the plan's files. `record` is that of its storage.
    pub fn new(
        started: StartedTable,
        plan: &mut TablePlan,
        record: Option<&TableRecord>,
        identity: TableIdentity,
        placed: Option<(Place, u64)>,
        claim: Option<StorageClaim>,
    ) -> Self {
        let files = plan.files.take().map(Arc::new);
        let loaded = record.filter(|record| record.is_loaded);
        let of_files = files.as_ref().map(|files| files.stamp.time_ms);
        let fed = FedTable::new(FedTableConfig {
            is_shared: is_shared(&started.table),
            table: Arc::clone(&started.table),
            version_ms: loaded.map(|it| it.version_time_ms).or(of_files).unwrap_or(0),
            replayed: replayed(plan, record),
            storage: claim.as_ref().map(StorageClaim::storage),
        });
        let of_record = record.and_then(|record| record.version.clone());
        let of_files = || files.as_ref().map(|files| files.stamp.text.clone());
        let version = of_record.or_else(of_files).unwrap_or_else(|| "updates".to_owned());
        StartingTable { started, fed: Arc::new(fed), files, version, identity, placed, claim }
    }

    pub fn started(&self) -> &StartedTable {
        &self.started
    }

    pub fn table(&self) -> &Arc<ServedTable> {
        &self.started.table
    }

    pub fn fed(&self) -> &Arc<FedTable> {
        &self.fed
    }

    /// Filled with so many rows; `None` where it is not in Redis.
    pub fn in_redis(&self, rows: u64) -> Option<RedisKept> {
        let store = Arc::clone(self.started.redis.as_ref()?);
        let (fed, files) = (Arc::clone(&self.fed), self.files.clone());
        Some(RedisKept::new(fed, store, self.version.clone(), files, rows))
    }

    pub fn refresh_plan(&self, plan: &TablePlan) -> Option<RefreshPlan> {
        let cache = plan.cache.as_ref()?;
        // Without a share there is no refresh but on request.
        let (delay, interval, share) = match cache.refresh_share > 0.0 {
            true => (cache.refresh_delay, cache.refresh_interval, cache.refresh_share),
            false => (None, None, REQUESTED_SHARE),
        };
        Some(RefreshPlan { table: Arc::clone(self.table()), delay, interval, share })
    }

    /// What serves it.
    pub fn serve(
        self,
        upkeep: &Arc<TableUpkeep>,
        redis: Option<Arc<RedisKept>>,
    ) -> LiveTableConfig {
        LiveTableConfig {
            upkeep: Arc::clone(upkeep),
            table: self.started.table,
            fed: self.fed,
            redis,
            version: self.version,
            identity: self.identity,
            placed: self.placed,
            claim: self.claim,
        }
    }
}

/// Topics of which its storage has all that is committed. One that was not loaded from files has
/// had nothing but updates.
fn replayed(plan: &TablePlan, record: Option<&TableRecord>) -> BTreeSet<String> {
    let is_unreplayed = record.is_some_and(|record| record.is_loaded && !record.is_replayed);
    let own = (!is_unreplayed).then(|| plan.spec.tag.kafka_topic().to_owned());
    let others = record.iter().flat_map(|record| &record.replayed_topics).cloned();
    others.chain(own).collect()
}

fn is_shared(table: &ServedTable) -> bool {
    table.levels().level(LevelKind::Redis).is_some_and(|level| level.takes_updates())
}

//! A table that is served, with all that keeps it so: whoever serves it has one of these.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::fed_table::FedTable;
use super::placement::Place;
use super::redis_kept::RedisKept;
use super::storage_claims::StorageClaim;
use super::table_plan::TablePlan;
use super::table_upkeep::TableUpkeep;
use super::topic_feed::TopicFeed;
use crate::config::{GpuCacheConfig, ModelPath, PsConfig, UpdateFilters};
use crate::lookup::ServedTable;
use crate::table_tag::TableTag;

pub struct LiveTable {
    /// First, so that it ends before what it looks after.
    upkeep: Arc<TableUpkeep>,
    table: Arc<ServedTable>,
    fed: Arc<FedTable>,
    redis: Option<Arc<RedisKept>>,
    /// Of the rows that it began with.
    version: String,
    identity: TableIdentity,
    /// Where the server has put it, and the bytes of its rows.
    placed: Option<(Place, u64)>,
    /// By topic, those that sets have.
    feeds: Mutex<BTreeMap<String, Weak<TopicFeed>>>,
    /// Last: then nothing writes to its storage any more.
    claim: Option<StorageClaim>,
}

pub struct LiveTableConfig {
    pub upkeep: Arc<TableUpkeep>,
    pub table: Arc<ServedTable>,
    pub fed: Arc<FedTable>,
    pub redis: Option<Arc<RedisKept>>,
    pub version: String,
    pub identity: TableIdentity,
    pub placed: Option<(Place, u64)>,
    pub claim: Option<StorageClaim>,
}

/// What two tables have in common that are one.
#[derive(Clone, Debug, PartialEq)]
pub struct TableIdentity {
    paths: Vec<ModelPath>,
    /// `None` where the files cannot be read.
    stamp: Option<String>,
    cache: Option<GpuCacheConfig>,
    default_bits: u32,
    dim: usize,
    devices: Vec<u32>,
    /// Whether memory, Redis and the persistent level take its updates.
    updated: [bool; 3],
    /// Where only Redis has its rows, its name there: another version of that name takes their
    /// place, which is right for versions of one model alone.
    alone_as: Option<TableTag>,
}

impl TableIdentity {
    pub fn of(config: &PsConfig, plan: &TablePlan) -> Self {
        let is_for = |filters: Option<&UpdateFilters>| filters.is_some_and(|it| plan.is_for(it));
        let is_in_redis_alone = config.redis.is_some() && config.persistent.is_none();
        TableIdentity {
            paths: plan.paths().to_vec(),
            stamp: plan.files.as_ref().map(|files| files.stamp.text.clone()),
            cache: plan.cache.clone(),
            default_bits: plan.spec.default_value.to_bits(),
            dim: plan.spec.dim,
            devices: plan.devices.clone(),
            updated: [
                is_for(config.ram.as_ref().map(|level| &level.fill.update_filters)),
                is_for(config.redis.as_ref().map(|level| &level.fill.update_filters)),
                is_for(config.persistent.as_ref().map(|level| &level.update_filters)),
            ],
            alone_as: is_in_redis_alone.then(|| plan.spec.tag.clone()),
        }
    }

    /// Whether a table like this is right for whoever wants the other: one whose files cannot be
    /// read takes what is served. Without a GPU, one cache stands for those of all devices.
    fn serves(&self, wanted: &TableIdentity, is_on_gpus: bool) -> bool {
        let has_devices = || wanted.devices.iter().all(|device| self.devices.contains(device));
        let like = TableIdentity {
            stamp: wanted.stamp.clone().or_else(|| self.stamp.clone()),
            devices: self.devices.clone(),
            ..wanted.clone()
        };
        *self == like && (wanted.cache.is_none() || !is_on_gpus || has_devices())
    }
}

impl LiveTable {
    pub fn new(config: LiveTableConfig) -> Self {
        LiveTable {
            upkeep: config.upkeep,
            table: config.table,
            fed: config.fed,
            redis: config.redis,
            version: config.version,
            identity: config.identity,
            placed: config.placed,
            feeds: Mutex::default(),
            claim: config.claim,
        }
    }

    pub fn table(&self) -> &Arc<ServedTable> {
        &self.table
    }

    pub fn tag(&self) -> &TableTag {
        &self.table.spec().tag
    }

    pub fn fed(&self) -> &Arc<FedTable> {
        &self.fed
    }

    pub fn redis(&self) -> Option<&Arc<RedisKept>> {
        self.redis.as_ref()
    }

    pub fn upkeep(&self) -> &Arc<TableUpkeep> {
        &self.upkeep
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn placed(&self) -> Option<(Place, u64)> {
        self.placed
    }

    pub fn serves(&self, wanted: &TableIdentity, is_on_gpus: bool) -> bool {
        self.identity.serves(wanted, is_on_gpus)
    }

    /// What the database calls it, where that is its alone.
    pub fn storage(&self) -> Option<TableTag> {
        self.claim.as_ref().map(StorageClaim::storage)
    }

    /// Once others can find it.
    pub fn note_started(&self) {
        if let Some(claim) = &self.claim {
            claim.note_started();
        }
    }

    /// Who brings the updates of a topic, if somebody does.
    pub fn feed(&self, topic: &str) -> Option<Arc<TopicFeed>> {
        self.feeds().get(topic).and_then(Weak::upgrade)
    }

    pub fn note_feed(&self, topic: &str, feed: &Arc<TopicFeed>) {
        self.feeds().insert(topic.to_owned(), Arc::downgrade(feed));
    }

    fn feeds(&self) -> MutexGuard<'_, BTreeMap<String, Weak<TopicFeed>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LiveTable {
    fn drop(&mut self) {
        if let Some(redis) = &self.redis {
            redis.end();
        }
        self.fed.end();
    }
}

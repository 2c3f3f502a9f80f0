//! The second part of a set's start: what runs on for as long as it is served.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_device::Device;

use super::cache_refresh::CacheRefresh;
use super::dense_versions::DenseVersions;
use super::feed_upkeep::FeedUpkeep;
use super::live_table::LiveTable;
use super::parameter_server::{ParameterServer, first_gpu};
use super::redis_kept::RedisKept;
use super::redis_upkeep::RedisUpkeep;
use super::set_feeds::{SetFeeds, WantedTopic};
use super::set_table::SetTable;
use super::shared_databases::SharedDatabases;
use super::start_error::StartError;
use super::table_plan::{TableName, TablePlan};
use super::table_upkeep::TableUpkeep;
use super::update_feeds::{FedDense, FedTopic};
use crate::config::{ModelTables, PsConfig};
use crate::lookup::{LookupPool, ServedTable};
use crate::table_tag::TableTag;

/// Tables that are loaded and filled, and not served yet.
pub struct PreparedSet {
    pub(super) databases: Arc<SharedDatabases>,
    pub(super) config: PsConfig,
    pub(super) tables: Vec<(TablePlan, SetTable)>,
    /// Of those that start, by their place in the set.
    pub(super) kept: BTreeMap<usize, Arc<RedisKept>>,
    pub(super) redis: RedisUpkeep,
    /// Who has left Redis to this set.
    pub(super) replaced: Vec<Arc<RedisKept>>,
}

/// Of one look-up on a GPU whose rows go to host memory.
const POOLED_KEYS: usize = 64 << 10;

impl PreparedSet {
    /// Threads that are started here have the priority of whoever calls this.
    pub fn serve(mut self) -> Result<ParameterServer, StartError> {
        let replaced = std::mem::take(&mut self.replaced);
        let served = self.start();
        if served.is_err() {
            replaced.iter().for_each(|kept| kept.take_over());
        }
        served
    }

    fn start(self) -> Result<ParameterServer, StartError> {
        let models = self.config.models.iter().map(|model| model.name.as_str());
        let dense = Arc::new(DenseVersions::new(models));
        let feeds = self.start_feeds(&dense)?;
        let served: Vec<_> = self.tables.iter().map(|(_, it)| Arc::clone(it.table())).collect();
        let lookups = self.lookup_pools(&served)?;
        let models = self.config.models.iter().map(names_of).collect();
        let PreparedSet { databases, config, tables, kept, redis, .. } = self;
        let upkeep = upkeep(&databases, &config, &tables, redis)?;
        let (mut live, mut names, mut topics) = (Vec::new(), BTreeMap::new(), Vec::new());
        for (index, (plan, table)) in tables.into_iter().enumerate() {
            live.push(match table {
                SetTable::Living(live) => live,
                SetTable::Starting(table) => {
                    let kept = kept.get(&index).cloned();
                    let live = Arc::new(LiveTable::new(table.serve(&upkeep, kept)));
                    databases.add(&live);
                    live
                }
            });
            topics.push(plan.topics.iter().map(|tag| tag.kafka_topic().to_owned()).collect());
            names.extend(plan.names.into_iter().map(|name| (name, index)));
        }
        for (index, topic, feed) in &feeds.new {
            live[*index].note_feed(topic, feed);
        }
        Ok(ParameterServer {
            feeds: feeds.all,
            live,
            tables: served,
            names,
            models,
            dense,
            topics,
            lookups,
            databases,
        })
    }

    fn start_feeds(&self, dense: &Arc<DenseVersions>) -> Result<SetFeeds, StartError> {
        let Some(source) = self.databases.feed_source() else { return Ok(SetFeeds::default()) };
        let mut topics = Vec::new();
        for (table, (plan, of_set)) in self.tables.iter().enumerate() {
            for topic in plan.topics.iter().map(TableTag::kafka_topic) {
                let living = match of_set {
                    SetTable::Living(live) => live.feed(topic),
                    SetTable::Starting(_) => None,
                };
                let topic = FedTopic { topic: topic.to_owned(), fed: Arc::clone(of_set.fed()) };
                topics.push(WantedTopic { table, topic, living });
            }
        }
        let since_ms =
            self.tables.iter().map(|(_, it)| it.fed().version_ms).min().unwrap_or(0) as i64;
        Ok(SetFeeds::start(&source, topics, FedDense { versions: dense, since_ms })?)
    }

    /// One for each GPU that is the first of a table.
    fn lookup_pools(
        &self,
        tables: &[Arc<ServedTable>],
    ) -> Result<BTreeMap<usize, LookupPool>, StartError> {
        let dim = tables.iter().map(|table| table.spec().dim).max().unwrap_or(1);
        let workspaces = self.config.models.iter().map(|model| model.worker_buffers).max();
        let mut pools = BTreeMap::new();
        for device in &self.databases.options().devices {
            let Device::Cuda(device) = device else { continue };
            let ordinal = device.info().ordinal;
            if !tables.iter().any(|table| first_gpu(table) == Some(ordinal)) {
                continue;
            }
            let pool = LookupPool::new(device, workspaces.unwrap_or(1), POOLED_KEYS, dim);
            let all = || "all tables".to_owned();
            let pool = pool.map_err(|error| StartError::Cache { table: all(), error })?;
            pools.insert(ordinal, pool);
        }
        Ok(pools)
    }
}

/// Of the tables that start.
fn upkeep(
    databases: &SharedDatabases,
    config: &PsConfig,
    tables: &[(TablePlan, SetTable)],
    redis: RedisUpkeep,
) -> Result<Arc<TableUpkeep>, StartError> {
    let new = tables.iter().filter_map(|(plan, table)| match table {
        SetTable::Starting(table) => Some((plan, table)),
        SetTable::Living(_) => None,
    });
    let new: Vec<_> = new.collect();
    let plans = new.iter().filter_map(|(plan, table)| table.refresh_plan(plan));
    let refresh = Arc::new(CacheRefresh::start(plans.collect())?);
    let mut tickers = Vec::new();
    if config.update_source.is_some() && !new.is_empty() {
        let fed = new.iter().map(|(_, table)| Arc::clone(table.fed()));
        let watch = FeedUpkeep {
            tables: fed.collect(),
            refresh: Arc::clone(&refresh),
            database: databases.persistent().cloned(),
        };
        tickers.push(watch.start()?);
    }
    if config.redis.is_some() && !new.is_empty() {
        tickers.push(redis.start(&refresh)?);
    }
    Ok(Arc::new(TableUpkeep::new(tickers, refresh)))
}

/// A model's tables as requests know them.
fn names_of(model: &ModelTables) -> Vec<TableName> {
    let name = |table: &str| TableName { model: model.name.clone(), table: table.to_owned() };
    model.request_tables().iter().map(|it| name(it.name)).collect()
}

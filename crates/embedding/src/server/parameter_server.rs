//! A set of tables of a configuration: loaded, looked up in, updated over Kafka and kept fresh.
//!
//! It never changes. Others may be served beside it, and share tables with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::dense_versions::DenseVersions;
use super::each_once::each_once;
use super::live_table::LiveTable;
use super::shared_databases::SharedDatabases;
use super::table_plan::TableName;
use super::table_upkeep::TableUpkeep;
use super::topic_feed::TopicFeed;
use super::update_feeds::UpdateFeeds;
use crate::error::Error;
use crate::feed::{ConsumerCounters, DenseWeights};
use crate::hot_cache::HotCache;
use crate::lookup::{LookupPool, LookupStats, MissingRows, ServedTable, UpdateScope};

/// When it is dropped, what no other set has of it ends: hot caches, memory, threads, consumers.
/// Rows of the persistent level stay.
pub struct ParameterServer {
    /// First, so that nothing is updated that ends.
    pub(super) feeds: Vec<Arc<TopicFeed>>,
    pub(super) live: Vec<Arc<LiveTable>>,
    /// Those of `live`.
    pub(super) tables: Vec<Arc<ServedTable>>,
    /// Indices of tables.
    pub(super) names: BTreeMap<TableName, usize>,
    /// Of each model, in the order of the configuration.
    pub(super) models: Vec<Vec<TableName>>,
    pub(super) dense: Arc<DenseVersions>,
    /// Kafka's, of each table.
    pub(super) topics: Vec<Vec<String>>,
    /// By the numbers of GPUs that hot caches are on.
    pub(super) lookups: BTreeMap<usize, LookupPool>,
    /// Last, so that databases are closed when nobody uses them.
    pub(super) databases: Arc<SharedDatabases>,
}

impl ParameterServer {
    /// All tables; models may share one.
    pub fn tables(&self) -> &[Arc<ServedTable>] {
        &self.tables
    }

    pub fn names(&self) -> impl Iterator<Item = (&TableName, &Arc<ServedTable>)> {
        self.names.iter().map(|(name, index)| (name, &self.tables[*index]))
    }

    /// The tables of each model, in the order of the configuration.
    pub fn models(&self) -> impl Iterator<Item = Vec<(&TableName, &Arc<ServedTable>)>> {
        self.models.iter().map(|names| {
            let found = names.iter().map(|name| (name, &self.tables[self.names[name]]));
            found.collect()
        })
    }

    /// By `model.table`, or by the table's name where no other model has one of that name.
    pub fn table(&self, name: &str) -> Option<&Arc<ServedTable>> {
        let index = match name.split_once('.') {
            Some((model, table)) => {
                let (model, table) = (model.to_owned(), table.to_owned());
                self.names.get(&TableName { model, table }).copied()
            }
            None => {
                let mut indices = self.names.iter().filter(|it| it.0.table == name).map(|it| *it.1);
                let first = indices.next();
                first.filter(|first| indices.all(|index| index == *first))
            }
        };
        index.map(|index| &self.tables[index])
    }

    /// The rows of keys, in host memory, through the table's first hot cache · rows: `[keys, dim]`
    pub fn look_up(
        &self,
        table: &Arc<ServedTable>,
        keys: &[i64],
        missing: MissingRows,
        rows: &mut [f32],
    ) -> Result<LookupStats, Error> {
        match first_gpu(table).and_then(|ordinal| self.lookups.get(&ordinal)) {
            Some(lookups) => lookups.look_up(table, 0, keys, missing, rows),
            None => table.look_up(keys, missing, rows),
        }
    }

    /// The topics that a table's updates come from.
    pub fn topics(&self, table: &Arc<ServedTable>) -> &[String] {
        self.index(table).map_or(&[], |index| &self.topics[index])
    }

    /// What tells the rows that a table began with from those of other files.
    pub fn version(&self, table: &Arc<ServedTable>) -> &str {
        self.index(table).map_or("", |index| self.live[index].version())
    }

    fn index(&self, table: &Arc<ServedTable>) -> Option<usize> {
        self.tables.iter().position(|other| Arc::ptr_eq(other, table))
    }

    /// The newest dense weights of a model that came over Kafka.
    pub fn dense_weights(&self, model: &str) -> Option<Arc<DenseWeights>> {
        self.dense.newest(model)
    }

    /// What consumers of updates have done; empty without Kafka.
    pub fn consumers(&self) -> Vec<(UpdateScope, ConsumerCounters)> {
        self.feeds().into_iter().flat_map(|feeds| feeds.consumers()).collect()
    }

    /// How often hot caches were walked whole.
    pub fn refreshes(&self) -> u64 {
        self.upkeep().into_iter().map(|upkeep| upkeep.refresh().walks()).sum()
    }

    /// Has all hot caches walked soon.
    pub fn refresh(&self) {
        self.upkeep().into_iter().for_each(|upkeep| upkeep.refresh().request());
    }

    /// What further sets are started beside.
    pub fn databases(&self) -> &Arc<SharedDatabases> {
        &self.databases
    }

    /// Each once.
    pub(super) fn feeds(&self) -> Vec<&Arc<UpdateFeeds>> {
        each_once(self.feeds.iter().map(|feed| feed.feeds()))
    }

    /// Each once.
    pub(super) fn upkeep(&self) -> Vec<&Arc<TableUpkeep>> {
        each_once(self.live.iter().map(|live| live.upkeep()))
    }
}

/// The GPU of a table's first hot cache; `None` where that is in host memory, or not there.
pub(super) fn first_gpu(table: &ServedTable) -> Option<usize> {
    match table.caches().first()?.cache() {
        HotCache::Cuda(cache) => Some(cache.ordinal()),
        HotCache::Host(_) => None,
    }
}

impl Drop for ParameterServer {
    fn drop(&mut self) {
        self.feeds.clear();
        let tags: Vec<_> = self.live.iter().map(|live| live.tag().clone()).collect();
        self.tables.clear();
        self.live.clear();
        // Of versions that are served on, the newest has Redis.
        for tag in tags {
            let newest = self.databases.others(&tag).pop();
            if let Some(kept) = newest.as_ref().and_then(|live| live.redis())
                && kept.is_out()
            {
                kept.take_over();
            }
        }
    }
}

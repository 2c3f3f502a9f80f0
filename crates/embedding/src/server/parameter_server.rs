//! All tables of a configuration: loaded, looked up in, updated over Kafka and kept fresh.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::cache_refresh::CacheRefresh;
use super::dense_versions::DenseVersions;
use super::table_plan::TableName;
use super::ticker::Ticker;
use super::update_feeds::UpdateFeeds;
use crate::error::Error;
use crate::feed::{ConsumerCounters, DenseWeights};
use crate::hot_cache::HotCache;
use crate::lookup::{FillThreads, LookupPool, LookupStats, MissingRows, ServedTable, UpdateScope};

/// Ends its threads when it is dropped.
pub struct ParameterServer {
    /// First, so that they end before what they use.
    pub(super) upkeep: Vec<Ticker>,
    pub(super) tables: Vec<Arc<ServedTable>>,
    /// Indices of tables.
    pub(super) names: BTreeMap<TableName, usize>,
    /// Of each model, in the order of the configuration.
    pub(super) models: Vec<Vec<TableName>>,
    pub(super) feeds: Option<Arc<UpdateFeeds>>,
    pub(super) refresh: Arc<CacheRefresh>,
    pub(super) dense: Arc<DenseVersions>,
    /// Kafka's, of each table.
    pub(super) topics: Vec<Vec<String>>,
    /// Of the rows that each table began with.
    pub(super) versions: Vec<String>,
    /// By the numbers of GPUs that hot caches are on.
    pub(super) lookups: BTreeMap<usize, LookupPool>,
    pub(super) fills: Arc<FillThreads>,
}

/// For fills that are under way at the end.
const DRAIN_LONGEST: Duration = Duration::from_secs(5);

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
        self.index(table).map_or("", |index| &self.versions[index])
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
        let Some(feeds) = &self.feeds else { return Vec::new() };
        let shared = feeds.shared().map(|counters| (UpdateScope::Shared, counters));
        std::iter::once((UpdateScope::Own, feeds.own())).chain(shared).collect()
    }

    /// How often hot caches were walked whole.
    pub fn refreshes(&self) -> u64 {
        self.refresh.walks()
    }

    /// Has all hot caches walked soon.
    pub fn refresh(&self) {
        self.refresh.request();
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
        self.upkeep.clear();
        // They hold the database open.
        self.fills.drain(DRAIN_LONGEST);
    }
}

//! Gives updates that come over Kafka to the tables and models that they are for.
//!
//! It keeps none of them from ending. What comes for one that has ended is not taken, so that it is
//! not lost for whoever serves it next.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use terrace_tiers::TierError;

use super::dense_versions::{DENSE_BYTES_MOST, DenseVersions};
use crate::feed::{DenseWeights, RowUpdates, TopicTable, UpdateSink};
use crate::lookup::{ServedTable, UpdateError, UpdateScope};
use crate::table_spec::TableSpec;

pub struct TableUpdates {
    scope: UpdateScope,
    /// By topic.
    tables: HashMap<String, UpdatedTable>,
    /// Of no model where others take them.
    dense: Weak<DenseVersions>,
}

pub struct UpdatedTable {
    table: Weak<ServedTable>,
    shape: TopicTable,
}

impl UpdatedTable {
    pub fn new(table: &Weak<ServedTable>, spec: &TableSpec) -> Self {
        let shape = TopicTable { key_kind: spec.key_kind, dim: spec.dim };
        UpdatedTable { table: Weak::clone(table), shape }
    }
}

impl TableUpdates {
    pub fn new(
        scope: UpdateScope,
        tables: HashMap<String, UpdatedTable>,
        dense: Weak<DenseVersions>,
    ) -> Self {
        TableUpdates { scope, tables, dense }
    }
}

impl UpdateSink for TableUpdates {
    fn wants(&self, topic: &str) -> Option<TopicTable> {
        self.tables.get(topic).map(|table| table.shape)
    }

    fn apply(&self, topic: &str, update: &RowUpdates<'_>) -> Result<(), TierError> {
        let table = &self.tables.get(topic).expect("a topic that is wanted").table;
        let table = table.upgrade().ok_or_else(|| over(topic))?;
        table.update(self.scope, update.keys, update.rows).map_err(|error| match error {
            UpdateError::Level(error) => error,
            UpdateError::Cache(error) => {
                TierError::Io(format!("the hot cache of {topic} was not written: {error}"))
            }
        })
    }

    fn wants_dense(&self, topic: &str) -> Option<usize> {
        let dense = self.dense.upgrade().filter(|dense| dense.has(topic));
        dense.map(|_| DENSE_BYTES_MOST)
    }

    fn apply_dense(&self, topic: &str, weights: &DenseWeights) -> Result<(), TierError> {
        let dense: Arc<DenseVersions> = self.dense.upgrade().ok_or_else(|| over(topic))?;
        dense.put(topic, weights);
        Ok(())
    }
}

fn over(topic: &str) -> TierError {
    TierError::Unavailable(format!("nobody is served with {topic} any more"))
}

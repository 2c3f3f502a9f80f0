//! Gives updates that come over Kafka to the tables and models that they are for.

use std::collections::HashMap;
use std::sync::Arc;

use terrace_tiers::TierError;

use super::dense_versions::{DENSE_BYTES_MOST, DenseVersions};
use crate::feed::{DenseWeights, RowUpdates, TopicTable, UpdateSink};
use crate::lookup::{ServedTable, UpdateError, UpdateScope};

pub struct TableUpdates {
    scope: UpdateScope,
    /// By topic.
    tables: HashMap<String, Arc<ServedTable>>,
    /// `None`: others take them.
    dense: Option<Arc<DenseVersions>>,
}

impl TableUpdates {
    pub fn new(
        scope: UpdateScope,
        tables: HashMap<String, Arc<ServedTable>>,
        dense: Option<Arc<DenseVersions>>,
    ) -> Self {
        TableUpdates { scope, tables, dense }
    }
}

impl UpdateSink for TableUpdates {
    fn wants(&self, topic: &str) -> Option<TopicTable> {
        let spec = self.tables.get(topic)?.spec();
        Some(TopicTable { key_kind: spec.key_kind, dim: spec.dim })
    }

    fn apply(&self, topic: &str, update: &RowUpdates<'_>) -> Result<(), TierError> {
        let table = self.tables.get(topic).expect("a topic that is wanted");
        table.update(self.scope, update.keys, update.rows).map_err(|error| match error {
            UpdateError::Level(error) => error,
            UpdateError::Cache(error) => {
                TierError::Io(format!("the hot cache of {topic} was not written: {error}"))
            }
        })
    }

    fn wants_dense(&self, topic: &str) -> Option<usize> {
        let dense = self.dense.as_ref().filter(|dense| dense.has(topic));
        dense.map(|_| DENSE_BYTES_MOST)
    }

    fn apply_dense(&self, topic: &str, weights: &DenseWeights) -> Result<(), TierError> {
        if let Some(dense) = &self.dense {
            dense.put(topic, weights);
        }
        Ok(())
    }
}

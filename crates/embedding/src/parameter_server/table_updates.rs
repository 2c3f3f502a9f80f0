//! Gives updates that come over Kafka to the tables that they are for.

use std::collections::HashMap;
use std::sync::Arc;

use terrace_tiers::TierError;

use crate::feed::{RowUpdates, TopicTable, UpdateSink};
use crate::lookup::{ServedTable, UpdateError, UpdateScope};

pub struct TableUpdates {
    scope: UpdateScope,
    /// By topic.
    tables: HashMap<String, Arc<ServedTable>>,
}

impl TableUpdates {
    pub fn new(scope: UpdateScope, tables: HashMap<String, Arc<ServedTable>>) -> Self {
        TableUpdates { scope, tables }
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
}

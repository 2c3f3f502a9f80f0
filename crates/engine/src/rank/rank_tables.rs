//! Where the rows of a model's features are.

use std::sync::Arc;

use terrace_embedding::{TableId, TableSet};

use super::served_features::ServedFeatures;

#[derive(Clone)]
pub enum RankTables {
    /// In memory, whole.
    Own(Arc<TableSet>),
    /// A parameter server is asked for them.
    Served(Arc<ServedFeatures>),
}

impl RankTables {
    pub fn table(&self, name: &str) -> Option<TableId> {
        match self {
            RankTables::Own(tables) => tables.table(name),
            RankTables::Served(features) => features.table(name),
        }
    }

    pub fn name(&self, table: TableId) -> &str {
        match self {
            RankTables::Own(tables) => tables.name(table),
            RankTables::Served(features) => features.name(table),
        }
    }
}

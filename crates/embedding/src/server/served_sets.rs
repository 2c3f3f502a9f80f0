//! What several sets of tables have together, each table and each consumer once.

use std::sync::Arc;

use super::each_once::each_once;
use super::parameter_server::ParameterServer;
use super::table_plan::TableName;
use crate::feed::ConsumerCounters;
use crate::lookup::{ServedTable, UpdateScope};

/// The oldest first.
#[derive(Clone, Copy)]
pub struct ServedSets<'a>(pub &'a [Arc<ParameterServer>]);

/// A table by a name that it is found by.
pub struct NamedTable<'a> {
    pub name: &'a TableName,
    pub set: &'a Arc<ParameterServer>,
    pub table: &'a Arc<ServedTable>,
}

impl<'a> ServedSets<'a> {
    pub fn tables(&self) -> Vec<(&'a Arc<ParameterServer>, &'a Arc<ServedTable>)> {
        let mut tables: Vec<(&Arc<ParameterServer>, &Arc<ServedTable>)> = Vec::new();
        for set in self.0 {
            for table in set.tables() {
                if !tables.iter().any(|(_, other)| Arc::ptr_eq(other, table)) {
                    tables.push((set, table));
                }
            }
        }
        tables
    }

    /// A name that several sets have is the newest's, in the order of names.
    pub fn names(&self) -> Vec<NamedTable<'a>> {
        let mut names: Vec<NamedTable<'a>> = Vec::new();
        for set in self.0.iter().rev() {
            for (name, table) in set.names() {
                if !names.iter().any(|other| other.name == name) {
                    names.push(NamedTable { name, set, table });
                }
            }
        }
        names.sort_by_key(|named| named.name);
        names
    }

    /// What consumers of updates have done.
    pub fn consumers(&self) -> Vec<(UpdateScope, ConsumerCounters)> {
        let feeds = each_once(self.0.iter().flat_map(|set| set.feeds()));
        feeds.into_iter().flat_map(|feeds| feeds.consumers()).collect()
    }

    /// How often hot caches were walked whole.
    pub fn refreshes(&self) -> u64 {
        let upkeep = each_once(self.0.iter().flat_map(|set| set.upkeep()));
        upkeep.into_iter().map(|upkeep| upkeep.refresh().walks()).sum()
    }
}

//! A database with full copies of tables, which survives restarts.

use std::sync::Arc;

use terrace_tiers::TierError;

use crate::row_store::RowStore;
use crate::table_record::TableRecord;
use crate::table_spec::TableSpec;

pub trait RowDatabase: Send + Sync {
    /// "rocksdb", "embedded": in metrics and logs.
    fn name(&self) -> &str;

    /// Opens a table, and makes it first where there is none. One of another width or kind of keys
    /// is refused.
    fn table(&self, spec: &TableSpec) -> Result<Arc<dyn RowStore>, TierError>;

    /// The tags of all tables.
    fn tags(&self) -> Result<Vec<String>, TierError>;

    /// Forgets a table, its rows and its record.
    fn remove_table(&self, tag: &str) -> Result<(), TierError>;

    /// What is known of a table; `None` where nothing was written.
    fn record(&self, tag: &str) -> Result<Option<TableRecord>, TierError>;

    /// Survives a power cut when it returns, together with the rows that were put before.
    fn write_record(&self, tag: &str, record: &TableRecord) -> Result<(), TierError>;
}

//! What RocksDB and fjall both are: a folder with tables of keys and values in bytes.
//!
//! Everything that they share, from rows and repeated keys to records of tables, is
//! [`KeyValueDatabase`](super::key_value_database::KeyValueDatabase)'s.

use std::ops::ControlFlow;
use std::path::PathBuf;

use terrace_tiers::TierError;

use super::key_code::ByteOrder;
use super::ordered_rows::{OrderedKeys, OrderedRows};
use crate::config::BatchSizes;

pub trait KeyValueDb: Send + Sync {
    /// In metrics and logs.
    const NAME: &'static str;
    /// Of keys.
    const ORDER: ByteOrder;

    type Table: Send + Sync;

    fn settings(&self) -> &DbSettings;

    /// Those of other programs may be among them.
    fn table_names(&self) -> Vec<String>;

    fn open_table(&self, name: &str) -> Result<Option<Self::Table>, TierError>;

    fn make_table(&self, name: &str) -> Result<Self::Table, TierError>;

    fn drop_table(&self, name: &str) -> Result<(), TierError>;

    fn record(&self, table_name: &str) -> Result<Option<Vec<u8>>, TierError>;

    /// `None` takes it away. When it returns, this and all that was written before survives a power
    /// cut.
    fn write_record(&self, table_name: &str, record: Option<&[u8]>) -> Result<(), TierError>;

    /// Calls `found` with the place in `keys` and the value of each that is there. After an error
    /// what was found is right.
    fn get(
        &self,
        table: &Self::Table,
        keys: OrderedKeys<'_>,
        found: &mut FoundValue<'_>,
    ) -> Result<(), TierError>;

    fn put(&self, table: &Self::Table, rows: OrderedRows<'_>) -> Result<(), TierError>;

    /// As `put`, past logs and memory where that is faster.
    fn load(&self, table: &Self::Table, rows: OrderedRows<'_>) -> Result<(), TierError>;

    fn delete(&self, table: &Self::Table, keys: OrderedKeys<'_>) -> Result<(), TierError>;

    fn estimate_rows(&self, table: &Self::Table) -> Result<u64, TierError>;

    /// As they are at the beginning, until `each` breaks.
    fn scan(&self, table: &Self::Table, each: &mut ScannedEntry<'_>) -> Result<(), TierError>;

    /// What was written survives a power cut when it returns.
    fn sync(&self) -> Result<(), TierError>;
}

pub struct DbSettings {
    pub path: PathBuf,
    pub read_only: bool,
    pub batches: BatchSizes,
    /// That one look-up may take.
    pub lookup_threads: usize,
}

impl DbSettings {
    pub fn require_writable(&self, name: &str) -> Result<(), TierError> {
        if !self.read_only {
            return Ok(());
        }
        let path = self.path.display();
        Err(TierError::ReadOnly(format!(
            "{name}: the database in {path} was opened to read only; set read_only to false"
        )))
    }
}

pub type FoundValue<'a> = dyn FnMut(usize, &[u8]) + 'a;

pub type ScannedEntry<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, TierError> + 'a;

//! Rows to compare: of a table's files, or of one of its levels.

use crate::key_kind::KeyKind;
use crate::load::{LoadError, SparseFolder};
use crate::row_store::{RowStore, ScannedRows};

#[derive(Clone, Copy)]
pub enum AuditedRows<'a> {
    /// Of the tables that are served as one.
    Files(&'a [SparseFolder]),
    Level(&'a dyn RowStore),
}

/// Read at once.
const BATCH_ROWS: usize = 16 << 10;

impl AuditedRows<'_> {
    /// How many there are. A level on a disk may guess.
    pub fn count(&self) -> Result<u64, LoadError> {
        match self {
            AuditedRows::Files(folders) => Ok(folders.iter().map(SparseFolder::count).sum()),
            AuditedRows::Level(store) => Ok(store.count()?),
        }
    }

    /// Gives all rows. Files are read in their order, and a key may repeat in them.
    pub fn scan(&self, kind: KeyKind, each: &mut ScannedRows<'_>) -> Result<(), LoadError> {
        match self {
            AuditedRows::Files(folders) => {
                folders.iter().try_for_each(|folder| folder.scan(BATCH_ROWS, kind, each))
            }
            AuditedRows::Level(store) => Ok(store.scan(BATCH_ROWS, each)?),
        }
    }
}

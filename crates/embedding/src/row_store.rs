//! Rows of one table on one level: RAM, Redis, a disk, or one of your own.
//!
//! A store maps keys to rows of one width. It is called from several threads at once, with a batch
//! in every call. A row is given whole or not at all, whatever is written beside it. What a call
//! that failed did not write, it did not write: rows are never mixed and never lost otherwise.

use terrace_tiers::TierError;

pub trait RowStore: Send + Sync {
    /// "ram", "redis", "rocksdb", "embedded": in metrics and logs.
    fn name(&self) -> &str;

    /// Fills the rows of keys that are not found yet and that it has, and marks them as found. Keys
    /// may repeat. After an error what is marked is right · rows: `[keys, dim]` · found: `[keys]`
    fn get_many(&self, keys: &[i64], rows: &mut [f32], found: &mut [bool])
    -> Result<(), TierError>;

    /// Adds or replaces rows. Of a key that repeats, the last row stays · rows: `[keys, dim]`
    fn put_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError>;

    /// Adds the rows of keys that it has not got, and leaves the others as they are: what is copied
    /// up from a slower level never takes the place of something newer. Of a key that repeats, the
    /// first row stays · rows: `[keys, dim]`
    fn add_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError>;

    /// As [`put_many`](Self::put_many), for large batches into a table that nobody reads yet. They
    /// survive a crash after the next [`sync`](Self::sync), and before it each row is there or not.
    fn load_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.put_many(keys, rows)
    }

    fn remove_many(&self, keys: &[i64]) -> Result<(), TierError>;

    /// How many rows it has. A store on a disk may guess.
    fn count(&self) -> Result<u64, TierError>;

    /// Gives all rows in batches of at most so many, each key once, in any order. What is written
    /// meanwhile may be among them or not.
    fn scan(&self, batch_rows: usize, each: &mut ScannedRows<'_>) -> Result<(), TierError>;

    /// Returns when what was written survives a power cut, where the store can promise that.
    fn sync(&self) -> Result<(), TierError> {
        Ok(())
    }
}

/// What [`RowStore::scan`] calls with keys and rows; an error of it ends the scan.
pub type ScannedRows<'a> = dyn FnMut(&[i64], &[f32]) -> Result<(), TierError> + 'a;

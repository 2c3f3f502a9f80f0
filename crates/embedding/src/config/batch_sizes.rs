//! How many rows go into one call to a database.

use super::fields::Fields;
use super::generation::Generation;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSizes {
    pub read_rows: usize,
    pub write_rows: usize,
}

pub const BATCH_MAX: u64 = i32::MAX as u64;

impl BatchSizes {
    /// `max_batch_size` is both; the names of older releases are either.
    pub(super) fn read(fields: &mut Fields<'_>, generation: Generation) -> Self {
        let mut rows = |name| fields.whole(name, 1..=BATCH_MAX).map(|rows| rows as usize);
        let both = rows("max_batch_size").unwrap_or(generation.database_batch());
        BatchSizes {
            read_rows: rows("max_get_batch_size").unwrap_or(both),
            write_rows: rows("max_set_batch_size").unwrap_or(both),
        }
    }
}

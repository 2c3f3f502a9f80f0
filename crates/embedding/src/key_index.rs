//! Which row an id has.

use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyIndex {
    /// An id is the number of its row.
    Dense { rows: usize },
    /// Ids in any order, each with its row; and the id of each row.
    Listed { rows: HashMap<i64, u32>, keys: Vec<i64> },
}

impl KeyIndex {
    pub fn get(&self, key: i64) -> Option<usize> {
        match self {
            KeyIndex::Dense { rows } => usize::try_from(key).ok().filter(|row| row < rows),
            KeyIndex::Listed { rows, .. } => rows.get(&key).map(|row| *row as usize),
        }
    }

    /// The id of a row.
    pub fn key(&self, row: usize) -> Option<i64> {
        match self {
            KeyIndex::Dense { rows } => (row < *rows).then_some(row as i64),
            KeyIndex::Listed { keys, .. } => keys.get(row).copied(),
        }
    }
}

//! One table: rows of numbers, and which id has which.

use std::collections::HashMap;

use terrace_kernels::Matrix;

use crate::error::Error;
use crate::key_index::KeyIndex;

pub struct EmbeddingTable {
    name: String,
    rows: Matrix,
    index: KeyIndex,
    /// Of ids that it has not got.
    default_row: Vec<f32>,
}

impl EmbeddingTable {
    /// `keys` are the ids of the rows; without them an id is the number of its row. The default row
    /// is zeros unless it is given.
    pub fn new(
        name: &str,
        rows: Matrix,
        keys: Option<&[i64]>,
        default_row: Option<Vec<f32>>,
    ) -> Result<Self, Error> {
        let table = || name.to_owned();
        let index = match keys {
            None => KeyIndex::Dense { rows: rows.rows() },
            Some(keys) if keys.len() != rows.rows() => {
                return Err(Error::Keys { table: table(), rows: rows.rows(), keys: keys.len() });
            }
            Some(keys) => {
                let mut listed = HashMap::with_capacity(keys.len());
                for (second, key) in keys.iter().enumerate() {
                    if let Some(first) = listed.insert(*key, second as u32) {
                        let first = first as usize;
                        return Err(Error::KeyTwice { table: table(), key: *key, first, second });
                    }
                }
                KeyIndex::Listed { rows: listed, keys: keys.to_vec() }
            }
        };
        let default_row = default_row.unwrap_or_else(|| vec![0.0; rows.columns()]);
        if default_row.len() != rows.columns() {
            let (found, wanted) = (default_row.len(), rows.columns());
            return Err(Error::DefaultRow { table: table(), found, wanted });
        }
        Ok(EmbeddingTable { name: table(), rows, index, default_row })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn dim(&self) -> usize {
        self.rows.columns()
    }

    pub(crate) fn index(&self) -> &KeyIndex {
        &self.index
    }

    pub(crate) fn rows(&self) -> &Matrix {
        &self.rows
    }

    pub(crate) fn default_row(&self) -> &[f32] {
        &self.default_row
    }
}

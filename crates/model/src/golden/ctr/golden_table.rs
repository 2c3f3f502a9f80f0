//! The rows of an embedding table, and behind them the one of keys that it does not have.

use std::collections::HashMap;

pub(super) struct GoldenTable {
    row_of_key: HashMap<i64, i32>,
    /// f32 `[keys + 1, dim]`
    pub rows: Vec<f32>,
    default_row: i32,
}

impl GoldenTable {
    /// keys: i64 · rows: f32, both as little-endian bytes
    pub fn new(keys: &[u8], rows: &[u8], dim: usize, default: f32) -> Self {
        let keys = keys.as_chunks().0.iter().map(|key| i64::from_le_bytes(*key));
        let row_of_key: HashMap<i64, i32> = keys.zip(0..).collect();
        let mut rows: Vec<f32> =
            rows.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect();
        let default_row = (rows.len() / dim) as i32;
        rows.extend(std::iter::repeat_n(default, dim));
        GoldenTable { row_of_key, rows, default_row }
    }

    pub fn row(&self, key: i64) -> i32 {
        self.row_of_key.get(&key).copied().unwrap_or(self.default_row)
    }
}

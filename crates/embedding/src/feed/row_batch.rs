//! Rows of one table that are delivered at once: the last value of each key.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::update_sink::RowUpdates;

pub struct RowBatch {
    dim: usize,
    keys: Vec<i64>,
    /// [keys, dim]
    rows: Vec<f32>,
    /// Where a key's row is.
    index: HashMap<i64, usize>,
}

impl RowBatch {
    pub fn new(dim: usize) -> Self {
        RowBatch { dim, keys: Vec::new(), rows: Vec::new(), index: HashMap::new() }
    }

    pub fn dim(&self) -> usize {
        self.dim
    }

    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    pub fn has(&self, key: i64) -> bool {
        self.index.contains_key(&key)
    }

    /// `row` is [dim], and takes the place of what the key had.
    pub fn put(&mut self, key: i64, row: impl Iterator<Item = f32>) {
        match self.index.entry(key) {
            Entry::Occupied(found) => {
                let begin = found.get() * self.dim;
                let slots = &mut self.rows[begin..begin + self.dim];
                slots.iter_mut().zip(row).for_each(|(slot, float)| *slot = float);
            }
            Entry::Vacant(free) => {
                free.insert(self.keys.len());
                self.keys.push(key);
                self.rows.extend(row);
            }
        }
        debug_assert_eq!(self.rows.len(), self.keys.len() * self.dim, "a row is [dim]");
    }

    /// Panics where the books disagree.
    #[cfg(test)]
    pub fn check(&self) {
        assert_eq!(self.rows.len(), self.keys.len() * self.dim);
        assert_eq!(self.index.len(), self.keys.len(), "a key has one row");
        for (key, at) in &self.index {
            assert_eq!(self.keys[*at], *key);
        }
    }

    pub fn updates(&self) -> RowUpdates<'_> {
        RowUpdates { keys: &self.keys, rows: &self.rows, dim: self.dim }
    }
}

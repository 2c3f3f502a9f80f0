//! Random histories of a store against a plain map.

use std::collections::BTreeMap;

use terrace_embedding::RowStore;
use terrace_testkit::Rng;

/// Keys that a history is about: close ones, far ones, and the ends.
pub const KEYS: usize = 40;

pub struct StoreHistory {
    random: Rng,
    dim: usize,
    keys: Vec<i64>,
    rows: BTreeMap<i64, Vec<f32>>,
    version: u32,
}

impl StoreHistory {
    /// Keys fit in `u32` unless `is_wide`.
    pub fn new(seed: u64, dim: usize, is_wide: bool) -> Self {
        let mut random = Rng::new(seed);
        let mut keys = vec![0, 1, 2, i64::from(u32::MAX)];
        if is_wide {
            keys.extend([i64::MAX, i64::MIN, -1]);
        }
        while keys.len() < KEYS {
            let key = random.number();
            keys.push(if is_wide { key.cast_signed() } else { i64::from(key as u32) });
        }
        StoreHistory { random, dim, keys, rows: BTreeMap::new(), version: 0 }
    }

    /// Some writes and look-ups, and at the end a look-up of all keys and a scan. The store holds
    /// what the map holds, whatever it did before.
    pub fn run(&mut self, store: &dyn RowStore, steps: usize) {
        for step in 0..steps {
            let keys = self.batch();
            let rows = self.rows_of(keys.len());
            match self.random.below(10) {
                0..4 => {
                    store.put_many(&keys, &rows).expect("put");
                    self.put(&keys, &rows);
                }
                4..6 => {
                    store.add_many(&keys, &rows).expect("add");
                    for (key, row) in keys.iter().zip(rows.chunks_exact(self.dim)) {
                        self.rows.entry(*key).or_insert_with(|| row.to_vec());
                    }
                }
                6 => {
                    store.load_many(&keys, &rows).expect("load");
                    self.put(&keys, &rows);
                }
                7 => {
                    store.remove_many(&keys).expect("remove");
                    self.rows.retain(|key, _| !keys.contains(key));
                }
                _ => self.look_up(store, &keys, step),
            }
        }
        self.look_up(store, &self.keys.clone(), steps);
        self.scan(store);
    }

    /// Every key has its row, and no other has one.
    pub fn look_up(&self, store: &dyn RowStore, keys: &[i64], step: usize) {
        let mut rows = vec![f32::NAN; keys.len() * self.dim];
        let mut found = vec![false; keys.len()];
        if let Some(first) = found.first_mut() {
            // As if a faster level had it.
            *first = true;
        }
        store.get_many(keys, &mut rows, &mut found).expect("get");
        for (index, key) in keys.iter().enumerate() {
            let row = &rows[index * self.dim..][..self.dim];
            match self.rows.get(key) {
                _ if index == 0 => assert!(row.iter().all(|number| number.is_nan())),
                Some(want) => {
                    assert!(found[index] && row == want, "step {step}, key {key}: {row:?}");
                }
                None => assert!(!found[index], "step {step}, key {key}: {row:?}"),
            }
        }
    }

    fn scan(&self, store: &dyn RowStore) {
        let mut rows = BTreeMap::new();
        let mut each = |keys: &[i64], numbers: &[f32]| {
            assert!(keys.len() <= 7 && numbers.len() == keys.len() * self.dim);
            for (key, row) in keys.iter().zip(numbers.chunks_exact(self.dim)) {
                assert!(rows.insert(*key, row.to_vec()).is_none(), "key {key} twice");
            }
            Ok(())
        };
        store.scan(7, &mut each).expect("scan");
        assert_eq!(rows, self.rows);
    }

    /// Keys may repeat.
    fn batch(&mut self) -> Vec<i64> {
        let count = self.random.below(12);
        (0..count).map(|_| self.keys[self.random.below(KEYS)]).collect()
    }

    /// Never the same twice.
    fn rows_of(&mut self, count: usize) -> Vec<f32> {
        let mut rows = Vec::with_capacity(count * self.dim);
        for _ in 0..count {
            self.version += 1;
            rows.extend((0..self.dim).map(|column| (self.version * 16) as f32 + column as f32));
        }
        rows
    }

    fn put(&mut self, keys: &[i64], rows: &[f32]) {
        for (key, row) in keys.iter().zip(rows.chunks_exact(self.dim)) {
            self.rows.insert(*key, row.to_vec());
        }
    }
}

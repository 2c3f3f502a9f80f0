//! The levels of one table, the fastest first, and what is found in them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::level::{Level, LevelKind};
use crate::table_spec::TableSpec;

pub struct TableLevels {
    spec: TableSpec,
    levels: Vec<Level>,
    defaults: AtomicU64,
    unanswered: AtomicU64,
}

/// What became of the keys of a fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Indices of keys that only the persistent level had.
    pub persistent: Vec<u32>,
    /// Keys that no level has: they got the default value.
    pub defaults: usize,
    /// Of these, how many a level that failed may have.
    pub unanswered: usize,
}

impl TableLevels {
    /// `levels` are in the order in which they are asked.
    pub fn new(spec: TableSpec, levels: Vec<Level>) -> Self {
        assert!(levels.is_sorted_by_key(Level::kind), "the fastest level first");
        let [defaults, unanswered] = [(); 2].map(|()| AtomicU64::new(0));
        TableLevels { spec, levels, defaults, unanswered }
    }

    pub fn spec(&self) -> &TableSpec {
        &self.spec
    }

    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    pub fn level(&self, kind: LevelKind) -> Option<&Level> {
        self.levels.iter().find(|level| level.kind() == kind)
    }

    /// Keys that got the default value, and how many of them a level that failed may have had.
    pub fn defaults(&self) -> (u64, u64) {
        (self.defaults.load(Ordering::Relaxed), self.unanswered.load(Ordering::Relaxed))
    }

    /// The rows of keys, from level to level; a key that none has gets the default value. A level
    /// that fails is passed by · rows: `[keys, dim]` · found: `[keys]`, false before
    pub fn fetch(&self, keys: &[i64], rows: &mut [f32], found: &mut [bool]) -> Fetched {
        let mut fetched = Fetched::default();
        let mut has_failed = false;
        for level in &self.levels {
            if found.iter().all(|found| *found) {
                break;
            }
            let is_last = level.kind() == LevelKind::Persistent;
            let before = if is_last { found.to_vec() } else { Vec::new() };
            has_failed |= level.get_many(keys, rows, found).is_err();
            if is_last {
                let new = (0..keys.len()).filter(|index| found[*index] && !before[*index]);
                fetched.persistent = new.map(|index| index as u32).collect();
            }
        }
        let dim = self.spec.dim;
        for index in (0..keys.len()).filter(|index| !found[*index]) {
            rows[index * dim..][..dim].fill(self.spec.default_value);
            fetched.defaults += 1;
        }
        fetched.unanswered = if has_failed { fetched.defaults } else { 0 };
        self.defaults.fetch_add(fetched.defaults as u64, Ordering::Relaxed);
        self.unanswered.fetch_add(fetched.unanswered as u64, Ordering::Relaxed);
        fetched
    }
}

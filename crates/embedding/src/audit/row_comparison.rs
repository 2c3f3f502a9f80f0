//! Rows that are looked up where they should be as well, and compared.
//!
//! Takes no memory but that of a batch. Where a key repeats in files, each of its rows is compared.

use serde::Serialize;

use super::audited_rows::AuditedRows;
use crate::load::LoadError;
use crate::row_store::RowStore;
use crate::table_spec::TableSpec;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RowComparison {
    pub equal: u64,
    /// That are there with other numbers.
    pub different: FoundKeys,
    /// That are not there.
    pub missing: FoundKeys,
}

/// Keys of which only some are remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FoundKeys {
    pub count: u64,
    pub first: Vec<i64>,
}

impl FoundKeys {
    fn add(&mut self, key: i64, most: usize) {
        self.count += 1;
        if self.first.len() < most {
            self.first.push(key);
        }
    }
}

impl RowComparison {
    /// Looks all of `rows` up in `store`, and remembers the first so many keys of each kind. Calls
    /// `progress` with how many were compared.
    pub fn of(
        rows: AuditedRows<'_>,
        store: &dyn RowStore,
        spec: &TableSpec,
        first: usize,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, LoadError> {
        let mut comparison = RowComparison::default();
        let (mut there, mut found) = (Vec::new(), Vec::new());
        let mut compared = 0;
        rows.scan(spec.key_kind, &mut |keys, numbers| {
            found.clear();
            found.resize(keys.len(), false);
            there.resize(numbers.len(), 0.0);
            store.get_many(keys, &mut there, &mut found)?;
            let pairs = numbers.chunks_exact(spec.dim).zip(there.chunks_exact(spec.dim));
            for ((key, found), (row, other)) in keys.iter().zip(&found).zip(pairs) {
                match *found {
                    false => comparison.missing.add(*key, first),
                    true if is_same(row, other) => comparison.equal += 1,
                    true => comparison.different.add(*key, first),
                }
            }
            compared += keys.len() as u64;
            progress(compared);
            Ok(())
        })?;
        Ok(comparison)
    }

    pub fn rows(&self) -> u64 {
        self.equal + self.different.count + self.missing.count
    }
}

fn is_same(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

//! A store of rows in the lines of a CSV file: small tables that people edit by hand.
//!
//! The file is read once; writes replace it whole, so that a crash leaves the old one or the new.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::RwLock;

use terrace_embedding::{RowStore, ScannedRows};
use terrace_tiers::TierError;

pub struct CsvStore {
    path: PathBuf,
    dim: usize,
    rows: RwLock<BTreeMap<i64, Vec<f32>>>,
}

impl CsvStore {
    pub fn open(path: &Path, dim: usize) -> Result<Self, TierError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(fault(path, &error)),
        };
        let row = |(number, line): (usize, &str)| {
            let wrong = || {
                let (path, number) = (path.display(), number + 1);
                TierError::Protocol(format!("{path}, line {number}: no key and {dim} numbers"))
            };
            let mut fields = line.split(',');
            let key = fields.next().and_then(|key| key.trim().parse().ok()).ok_or_else(wrong)?;
            let numbers: Result<Vec<f32>, _> = fields.map(|text| text.trim().parse()).collect();
            let numbers = numbers.ok().filter(|numbers| numbers.len() == dim);
            Ok((key, numbers.ok_or_else(wrong)?))
        };
        let rows = text.lines().enumerate().map(row).collect::<Result<_, TierError>>()?;
        Ok(CsvStore { path: path.to_owned(), dim, rows: RwLock::new(rows) })
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<i64, Vec<f32>>)) -> Result<(), TierError> {
        let mut rows = self.rows.write().expect("nobody panics while writing");
        let mut changed = rows.clone();
        change(&mut changed);
        let mut text = String::new();
        for (key, row) in &changed {
            write!(text, "{key}").expect("text takes text");
            row.iter().for_each(|number| write!(text, ",{number}").expect("text takes text"));
            text.push('\n');
        }
        let unfinished = self.path.with_extension("unfinished");
        let written = std::fs::write(&unfinished, text);
        let written = written.and_then(|()| std::fs::rename(&unfinished, &self.path));
        written.map_err(|error| fault(&self.path, &error))?;
        *rows = changed;
        Ok(())
    }

    fn pairs<'a>(&self, keys: &'a [i64], rows: &'a [f32]) -> impl Iterator<Item = (i64, Vec<f32>)> {
        keys.iter().copied().zip(rows.chunks_exact(self.dim).map(<[f32]>::to_vec))
    }
}

fn fault(path: &Path, error: &std::io::Error) -> TierError {
    TierError::Io(format!("{}: {error}", path.display()))
}

impl RowStore for CsvStore {
    fn name(&self) -> &str {
        "csv"
    }

    fn get_many(
        &self,
        keys: &[i64],
        rows: &mut [f32],
        found: &mut [bool],
    ) -> Result<(), TierError> {
        let known = self.rows.read().expect("nobody panics while writing");
        for (index, key) in keys.iter().enumerate().filter(|(_, key)| known.contains_key(key)) {
            if !found[index] {
                rows[index * self.dim..][..self.dim].copy_from_slice(&known[key]);
                found[index] = true;
            }
        }
        Ok(())
    }

    fn put_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.change(|all| all.extend(self.pairs(keys, rows)))
    }

    fn add_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.change(|all| {
            for (key, row) in self.pairs(keys, rows) {
                all.entry(key).or_insert(row);
            }
        })
    }

    fn remove_many(&self, keys: &[i64]) -> Result<(), TierError> {
        self.change(|all| all.retain(|key, _| !keys.contains(key)))
    }

    fn count(&self) -> Result<u64, TierError> {
        Ok(self.rows.read().expect("nobody panics while writing").len() as u64)
    }

    fn scan(&self, batch_rows: usize, each: &mut ScannedRows<'_>) -> Result<(), TierError> {
        let all = self.rows.read().expect("nobody panics while writing").clone();
        let all: Vec<(i64, Vec<f32>)> = all.into_iter().collect();
        for batch in all.chunks(batch_rows.max(1)) {
            let keys: Vec<i64> = batch.iter().map(|(key, _)| *key).collect();
            each(&keys, &batch.iter().flat_map(|(_, row)| row).copied().collect::<Vec<f32>>())?;
        }
        Ok(())
    }
}

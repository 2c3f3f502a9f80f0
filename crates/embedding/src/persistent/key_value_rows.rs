//! The rows of one table of a persistent database.
//!
//! Whoever writes a table has it alone, so that what is added never takes the place of something
//! newer; nobody waits to read. A value that has not the length of a row is an error, never a row.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terrace_tiers::TierError;

use super::key_code::KeyCode;
use super::key_value_db::KeyValueDb;
use super::lookup_parts::{LookupPart, in_parts};
use super::ordered_rows::{OrderedKeys, OrderedRows, RankedKey, Repeated, ranked};
use super::row_bytes::{WrongLength, read_row};
use super::wanted_keys::WantedKeys;
use crate::key_kind::KeyError;
use crate::row_store::{RowStore, ScannedRows};
use crate::table_spec::TableSpec;

pub struct KeyValueRows<D: KeyValueDb> {
    db: Arc<D>,
    table: D::Table,
    spec: TableSpec,
    code: KeyCode,
    writer: Mutex<()>,
    /// Set by whoever has `writer`.
    is_removed: AtomicBool,
}

impl<D: KeyValueDb> KeyValueRows<D> {
    pub fn new(db: Arc<D>, table: D::Table, spec: TableSpec) -> Self {
        let code = KeyCode { kind: spec.key_kind, order: D::ORDER };
        let (writer, is_removed) = (Mutex::new(()), AtomicBool::new(false));
        KeyValueRows { db, table, spec, code, writer, is_removed }
    }

    pub fn spec(&self) -> &TableSpec {
        &self.spec
    }

    /// Calls `remove` while nobody writes; if it succeeds, nobody does from then on.
    pub fn remove(&self, remove: impl FnOnce() -> Result<(), TierError>) -> Result<(), TierError> {
        let _writer = self.lock();
        remove()?;
        self.is_removed.store(true, Ordering::Release);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What every write begins with.
    fn begin_write(&self) -> Result<MutexGuard<'_, ()>, TierError> {
        self.db.settings().require_writable(D::NAME)?;
        let writer = self.lock();
        self.require_table()?;
        Ok(writer)
    }

    fn require_table(&self) -> Result<(), TierError> {
        if !self.is_removed.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(TierError::Unavailable(self.text("it was removed; open it again")))
    }

    fn ranked(&self, keys: &[i64], repeated: Repeated) -> Result<Vec<RankedKey>, TierError> {
        ranked(self.code, keys, repeated).map_err(|error| self.wrong_key(error))
    }

    fn ordered<'a>(&self, keys: &'a [RankedKey], rows: &'a [f32]) -> OrderedRows<'a> {
        OrderedRows { keys: self.ordered_keys(keys), rows, dim: self.spec.dim }
    }

    fn ordered_keys<'a>(&self, keys: &'a [RankedKey]) -> OrderedKeys<'a> {
        OrderedKeys { code: self.code, keys }
    }

    fn check_rows(&self, keys: &[i64], rows: &[f32]) {
        assert_eq!(rows.len(), keys.len() * self.spec.dim, "rows of a write");
    }

    fn look_up(&self, part: LookupPart<'_>) -> Result<(), TierError> {
        let LookupPart { keys, rows, found } = part;
        let wanted = WantedKeys::new(self.code, keys, found);
        let mut first_wrong = None;
        let result = self.db.get(&self.table, wanted.keys(), &mut |place, value| {
            if let Err(wrong) = wanted.fill(place, value, rows, found) {
                let rank = wanted.keys().keys[place].rank.to_be_bytes();
                first_wrong.get_or_insert_with(|| self.wrong_row(self.code.bytes(&rank), wrong));
            }
        });
        result.and(first_wrong.map_or(Ok(()), Err))
    }

    /// Those that the table has not got.
    fn absent(&self, keys: OrderedKeys<'_>) -> Result<Vec<RankedKey>, TierError> {
        let mut is_there = vec![false; keys.keys.len()];
        self.db.get(&self.table, keys, &mut |place, _| is_there[place] = true)?;
        let absent = keys.keys.iter().zip(is_there).filter(|(_, is_there)| !is_there);
        Ok(absent.map(|(key, _)| *key).collect())
    }

    fn wrong_key(&self, error: KeyError) -> TierError {
        TierError::Protocol(self.text(&error.to_string()))
    }

    fn wrong_row(&self, key: &[u8], length: WrongLength) -> TierError {
        let key = self.code.key(key).map_or_else(|| format!("{key:02x?}"), |key| key.to_string());
        let WrongLength { found, wanted } = length;
        TierError::Protocol(self.text(&format!(
            "the row of key {key} has {found} bytes, not {wanted}; put it again, or remove the \
             table and load it again"
        )))
    }

    /// "rocksdb: table hps_et.m.t in /rows: ".
    fn text(&self, what: &str) -> String {
        let path = self.db.settings().path.display();
        format!("{}: table {} in {path}: {what}", D::NAME, self.spec.tag)
    }
}

impl<D: KeyValueDb> RowStore for KeyValueRows<D> {
    fn name(&self) -> &str {
        D::NAME
    }

    fn get_many(
        &self,
        keys: &[i64],
        rows: &mut [f32],
        found: &mut [bool],
    ) -> Result<(), TierError> {
        let dim = self.spec.dim;
        assert_eq!((rows.len(), found.len()), (keys.len() * dim, keys.len()), "rows of a look-up");
        self.code.kind.check(keys).map_err(|error| self.wrong_key(error))?;
        self.require_table()?;
        let threads = self.db.settings().lookup_threads;
        in_parts(LookupPart { keys, rows, found }, threads, |part| self.look_up(part))
    }

    fn put_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.check_rows(keys, rows);
        let keys = self.ranked(keys, Repeated::Last)?;
        let _writer = self.begin_write()?;
        self.db.put(&self.table, self.ordered(&keys, rows))
    }

    fn add_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.check_rows(keys, rows);
        let keys = self.ranked(keys, Repeated::First)?;
        let _writer = self.begin_write()?;
        for keys in self.ordered_keys(&keys).chunks(self.db.settings().batches.write_rows) {
            let absent = self.absent(keys)?;
            self.db.put(&self.table, self.ordered(&absent, rows))?;
        }
        Ok(())
    }

    fn load_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.check_rows(keys, rows);
        let keys = self.ranked(keys, Repeated::Last)?;
        let _writer = self.begin_write()?;
        self.db.load(&self.table, self.ordered(&keys, rows))
    }

    fn remove_many(&self, keys: &[i64]) -> Result<(), TierError> {
        let keys = self.ranked(keys, Repeated::Last)?;
        let _writer = self.begin_write()?;
        self.db.delete(&self.table, self.ordered_keys(&keys))
    }

    fn count(&self) -> Result<u64, TierError> {
        self.require_table()?;
        self.db.estimate_rows(&self.table)
    }

    fn scan(&self, batch_rows: usize, each: &mut ScannedRows<'_>) -> Result<(), TierError> {
        self.require_table()?;
        let dim = self.spec.dim;
        let (mut keys, mut rows) = (Vec::new(), Vec::new());
        self.db.scan(&self.table, &mut |key, value| {
            let length = WrongLength { found: value.len(), wanted: self.spec.row_bytes() };
            let Some(number) = self.code.key(key) else {
                return Err(self.wrong_row(key, length));
            };
            keys.push(number);
            let start = rows.len();
            rows.resize(start + dim, 0.0);
            read_row(value, &mut rows[start..]).map_err(|wrong| self.wrong_row(key, wrong))?;
            if keys.len() >= batch_rows {
                each(&keys, &rows)?;
                keys.clear();
                rows.clear();
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if keys.is_empty() { Ok(()) } else { each(&keys, &rows) }
    }

    fn sync(&self) -> Result<(), TierError> {
        if self.db.settings().read_only { Ok(()) } else { self.db.sync() }
    }
}

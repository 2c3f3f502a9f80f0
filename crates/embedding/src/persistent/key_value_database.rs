//! All tables of a persistent database, and their records.
//!
//! A table has a record from the moment it is made. One that another program made has none: its
//! width and kind of keys are those of its first row. A table is made before its record and removed
//! after it, so a record never claims rows that are not there.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terrace_tiers::TierError;

use super::key_value_db::KeyValueDb;
use super::key_value_rows::KeyValueRows;
use super::record_text::{read_record, record_of_entry, write_record};
use crate::row_database::RowDatabase;
use crate::row_store::RowStore;
use crate::table_record::TableRecord;
use crate::table_spec::TableSpec;
use crate::table_tag::TableTag;

pub struct KeyValueDatabase<D: KeyValueDb> {
    db: Arc<D>,
    /// That are open: all who have one share its lock. Held while tables are made and removed.
    tables: Mutex<BTreeMap<String, Arc<KeyValueRows<D>>>>,
}

impl<D: KeyValueDb> KeyValueDatabase<D> {
    pub(super) fn new(db: D) -> Self {
        KeyValueDatabase { db: Arc::new(db), tables: Mutex::new(BTreeMap::new()) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<KeyValueRows<D>>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_or_make(&self, spec: &TableSpec) -> Result<D::Table, TierError> {
        let tag = spec.tag.as_str();
        if spec.dim == 0 {
            return Err(self.wrong(tag, "rows of 0 numbers are asked for; give it 1 or more"));
        }
        let table = match self.db.open_table(tag)? {
            Some(table) => table,
            None => self.make(tag)?,
        };
        let stored = self.stored_record(tag)?;
        let known = match &stored {
            Some(record) => Some(record.clone()),
            None => self.record_of_rows(tag, &table)?,
        };
        if let Some(conflict) = known.and_then(|record| record.conflict(spec)) {
            return Err(self.conflicting(&conflict));
        }
        if stored.is_none() && !self.db.settings().read_only {
            self.db.write_record(tag, Some(&write_record(&TableRecord::new(spec))))?;
        }
        Ok(table)
    }

    fn make(&self, tag: &str) -> Result<D::Table, TierError> {
        if self.db.settings().read_only {
            let text = "there is none, and the database was opened to read only; fill it first";
            return Err(TierError::ReadOnly(self.text(tag, text)));
        }
        // What another program dropped may have left one.
        if self.db.record(tag)?.is_some() {
            self.db.write_record(tag, None)?;
        }
        self.db.make_table(tag)
    }

    fn stored_record(&self, tag: &str) -> Result<Option<TableRecord>, TierError> {
        let Some(bytes) = self.db.record(tag)? else { return Ok(None) };
        let record = read_record(&bytes)
            .map_err(|reason| self.wrong(tag, &format!("its record cannot be read: {reason}")))?;
        Ok(Some(record))
    }

    /// Of a table without one; `None` if it has no rows either.
    fn record_of_rows(
        &self,
        tag: &str,
        table: &D::Table,
    ) -> Result<Option<TableRecord>, TierError> {
        let mut lengths = None;
        self.db.scan(table, &mut |key, value| {
            lengths = Some((key.len(), value.len()));
            Ok(ControlFlow::Break(()))
        })?;
        let record = lengths.map(|(key, value)| record_of_entry(key, value));
        record.transpose().map_err(|reason| self.wrong(tag, &reason))
    }

    fn wrong(&self, tag: &str, reason: &str) -> TierError {
        TierError::Protocol(self.text(tag, reason))
    }

    fn conflicting(&self, conflict: &str) -> TierError {
        let path = self.db.settings().path.display();
        TierError::Protocol(format!("{}: in {path}: {conflict}", D::NAME))
    }

    fn text(&self, tag: &str, what: &str) -> String {
        format!("{}: table {tag} in {}: {what}", D::NAME, self.db.settings().path.display())
    }
}

impl<D: KeyValueDb + 'static> RowDatabase for KeyValueDatabase<D> {
    fn name(&self) -> &str {
        D::NAME
    }

    fn table(&self, spec: &TableSpec) -> Result<Arc<dyn RowStore>, TierError> {
        let mut tables = self.lock();
        if let Some(rows) = tables.get(spec.tag.as_str()) {
            return match TableRecord::new(rows.spec()).conflict(spec) {
                Some(conflict) => Err(self.conflicting(&conflict)),
                None => Ok(Arc::clone(rows) as Arc<dyn RowStore>),
            };
        }
        let table = self.open_or_make(spec)?;
        let rows = Arc::new(KeyValueRows::new(Arc::clone(&self.db), table, spec.clone()));
        tables.insert(spec.tag.as_str().to_owned(), Arc::clone(&rows));
        Ok(rows)
    }

    fn tags(&self) -> Result<Vec<String>, TierError> {
        let mut names = self.db.table_names();
        names.retain(|name| TableTag::parse(name).is_some());
        names.sort_unstable();
        Ok(names)
    }

    fn remove_table(&self, tag: &str) -> Result<(), TierError> {
        self.db.settings().require_writable(D::NAME)?;
        let mut tables = self.lock();
        let remove = || {
            if self.db.open_table(tag)?.is_none() {
                return Ok(());
            }
            self.db.write_record(tag, None)?;
            self.db.drop_table(tag)
        };
        match tables.get(tag) {
            Some(rows) => rows.remove(remove)?,
            None => remove()?,
        }
        tables.remove(tag);
        Ok(())
    }

    fn record(&self, tag: &str) -> Result<Option<TableRecord>, TierError> {
        let _tables = self.lock();
        let Some(table) = self.db.open_table(tag)? else { return Ok(None) };
        match self.stored_record(tag)? {
            Some(record) => Ok(Some(record)),
            None => self.record_of_rows(tag, &table),
        }
    }

    fn write_record(&self, tag: &str, record: &TableRecord) -> Result<(), TierError> {
        self.db.settings().require_writable(D::NAME)?;
        let _tables = self.lock();
        if self.db.open_table(tag)?.is_none() {
            return Err(self.wrong(tag, "there is none to write a record of; open it first"));
        }
        self.db.write_record(tag, Some(&write_record(record)))
    }
}

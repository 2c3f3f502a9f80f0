//! A fjall database with tables in the format that `embedded_folder` describes.
//!
//! fjall waits for ever where its threads ended after a failed write, so every write here first
//! waits by itself for what fjall would wait for, and learns of that failure.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use terrace_tiers::TierError;

use super::embedded_fault::embedded_fault;
use super::key_code::ByteOrder;
use super::key_value_db::{DbSettings, FoundValue, KeyValueDb, ScannedEntry};
use super::ordered_rows::{OrderedKeys, OrderedRows};

pub struct EmbeddedTables {
    db: Database,
    records: Keyspace,
    /// That were opened, by their names.
    tables: Mutex<BTreeMap<String, Keyspace>>,
    settings: DbSettings,
    write_buffer_bytes: usize,
    /// Written since memtables were last handed over to be flushed.
    buffered_bytes: AtomicUsize,
}

pub const RECORDS: &str = "terrace.records";
/// Of one write, whatever the configured number of rows: fjall keeps it in memory twice.
const BATCH_BYTES: usize = 4 << 20;
/// Of rows that are worth files of their own: below it, a journal and a memtable are faster.
const INGEST_BYTES_MIN: usize = 1 << 20;
/// fjall stops at 4 that are to be flushed. One more can be asked for while a write goes on.
const SEALED_MEMTABLES_MAX: usize = 1;
/// fjall stops at 30, and slows down at 20.
const WRITE_RUNS_MAX: usize = 19;
/// A table that is loaded is not read yet; so many take a look-up long enough.
const LOAD_RUNS_MAX: usize = 64;
/// So many, and fjall merges them.
const MERGED_RUNS: usize = 4;
/// Some for the levels below, which come first.
const MERGES_ASKED: usize = 16;
/// What is written goes on while the last two parts are flushed.
const BUFFER_PARTS: usize = 3;
const POLL: Duration = Duration::from_millis(5);
const NAME_BYTES_MAX: usize = 255;

impl EmbeddedTables {
    pub fn new(
        db: Database,
        settings: DbSettings,
        write_buffer_bytes: usize,
    ) -> Result<Self, TierError> {
        let fault = embedded_fault("cannot open", &settings.path, write_buffer_bytes);
        let records = db.keyspace(RECORDS, KeyspaceCreateOptions::default).map_err(fault)?;
        let (tables, buffered_bytes) = (Mutex::default(), AtomicUsize::new(0));
        Ok(EmbeddedTables { db, records, tables, settings, write_buffer_bytes, buffered_bytes })
    }

    fn fault(&self, doing: &str) -> impl Fn(fjall::Error) -> TierError {
        embedded_fault(doing, &self.settings.path, self.write_buffer_bytes)
    }

    /// Waits until fjall has flushed and merged what was written, where it is behind.
    fn wait_for_room(&self, table: &Keyspace, runs_max: usize) -> Result<(), TierError> {
        while table.sealed_memtable_count() > SEALED_MEMTABLES_MAX
            || table.tree.l0_run_count() > runs_max
        {
            // Fails where a thread of fjall's ended.
            self.db.persist(PersistMode::Buffer).map_err(self.fault("cannot write to"))?;
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Keeps all memtables together within the write buffer.
    fn count_buffered(&self, bytes: usize) -> Result<(), TierError> {
        let buffered = self.buffered_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if buffered < self.write_buffer_bytes / BUFFER_PARTS {
            return Ok(());
        }
        self.buffered_bytes.store(0, Ordering::Relaxed);
        let tables: Vec<Keyspace> = self.lock().values().cloned().collect();
        for table in tables {
            table.rotate_memtable().map_err(self.fault("cannot flush"))?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Keyspace>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes it where there is none.
    fn open_or_make(&self, name: &str, doing: &str) -> Result<Keyspace, TierError> {
        if let Some(table) = self.lock().get(name) {
            return Ok(table.clone());
        }
        let table = self.db.keyspace(name, KeyspaceCreateOptions::default);
        let table = table.map_err(self.fault(doing))?;
        self.ask_for_merges(&table).map_err(self.fault(doing))?;
        self.lock().insert(name.to_owned(), table.clone());
        Ok(table)
    }

    /// fjall forgets which tables are to be merged when it is closed, and looks at each once when
    /// it is opened: one that was just loaded would be slow to read until somebody writes to it.
    fn ask_for_merges(&self, table: &Keyspace) -> fjall::Result<()> {
        if self.settings.read_only || table.tree.l0_run_count() < MERGED_RUNS {
            return Ok(());
        }
        // Each asks for one; without rows nothing else comes of it.
        (0..MERGES_ASKED).try_for_each(|_| table.start_ingestion()?.finish())
    }

    fn ingest(&self, table: &Keyspace, rows: OrderedRows<'_>) -> fjall::Result<()> {
        let mut ingestion = table.start_ingestion()?;
        rows.each(|key, value| ingestion.write(key, value))?;
        ingestion.finish()
    }
}

impl KeyValueDb for EmbeddedTables {
    const NAME: &'static str = "embedded";
    const ORDER: ByteOrder = ByteOrder::Big;

    type Table = Keyspace;

    fn settings(&self) -> &DbSettings {
        &self.settings
    }

    fn table_names(&self) -> Vec<String> {
        self.db.list_keyspace_names().iter().map(|name| name.to_string()).collect()
    }

    fn open_table(&self, name: &str) -> Result<Option<Keyspace>, TierError> {
        match self.db.keyspace_exists(name) {
            true => self.open_or_make(name, "cannot open a table of").map(Some),
            false => Ok(None),
        }
    }

    fn make_table(&self, name: &str) -> Result<Keyspace, TierError> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(TierError::Protocol(format!(
                "embedded: a table's name has 1 to {NAME_BYTES_MAX} bytes, {name:?} has {}; \
                 shorten the names of its model and table",
                name.len()
            )));
        }
        self.open_or_make(name, "cannot make a table in")
    }

    fn drop_table(&self, name: &str) -> Result<(), TierError> {
        let Some(table) = self.open_table(name)? else { return Ok(()) };
        self.db.delete_keyspace(table).map_err(self.fault("cannot remove a table of"))?;
        self.lock().remove(name);
        Ok(())
    }

    fn record(&self, table_name: &str) -> Result<Option<Vec<u8>>, TierError> {
        let record = self.records.get(table_name).map_err(self.fault("cannot read"))?;
        Ok(record.map(|record| record.to_vec()))
    }

    fn write_record(&self, table_name: &str, record: Option<&[u8]>) -> Result<(), TierError> {
        self.wait_for_room(&self.records, WRITE_RUNS_MAX)?;
        // Files that were ingested are on the disk already; the journal brings all before it along.
        let mut batch = self.db.batch().durability(Some(PersistMode::SyncAll));
        match record {
            Some(record) => batch.insert(&self.records, table_name, record),
            None => batch.remove(&self.records, table_name),
        }
        batch.commit().map_err(self.fault("cannot write to"))
    }

    fn get(
        &self,
        table: &Keyspace,
        keys: OrderedKeys<'_>,
        found: &mut FoundValue<'_>,
    ) -> Result<(), TierError> {
        let mut place = 0;
        let read = keys.each(|key| {
            if let Some(value) = table.get(key)? {
                found(place, &value);
            }
            place += 1;
            Ok(())
        });
        read.map_err(self.fault("cannot read"))
    }

    fn put(&self, table: &Keyspace, rows: OrderedRows<'_>) -> Result<(), TierError> {
        for part in rows.chunks(self.settings.batches.write_rows, BATCH_BYTES) {
            self.wait_for_room(table, WRITE_RUNS_MAX)?;
            let mut batch = self.db.batch();
            let put = part.each(|key, value| {
                batch.insert(table, key, value);
                Ok(())
            });
            put.and_then(|()| batch.commit()).map_err(self.fault("cannot write to"))?;
            self.count_buffered(part.bytes())?;
        }
        Ok(())
    }

    fn load(&self, table: &Keyspace, rows: OrderedRows<'_>) -> Result<(), TierError> {
        if rows.bytes() < INGEST_BYTES_MIN {
            return self.put(table, rows);
        }
        self.wait_for_room(table, LOAD_RUNS_MAX)?;
        self.ingest(table, rows).map_err(self.fault("cannot write to"))
    }

    fn delete(&self, table: &Keyspace, keys: OrderedKeys<'_>) -> Result<(), TierError> {
        for part in keys.chunks(self.settings.batches.write_rows) {
            self.wait_for_room(table, WRITE_RUNS_MAX)?;
            let mut batch = self.db.batch();
            let removed = part.each(|key| {
                batch.remove(table, key);
                Ok(())
            });
            removed.and_then(|()| batch.commit()).map_err(self.fault("cannot write to"))?;
            self.count_buffered(part.keys.len() * part.code.kind.bytes())?;
        }
        Ok(())
    }

    fn estimate_rows(&self, table: &Keyspace) -> Result<u64, TierError> {
        Ok(table.approximate_len() as u64)
    }

    fn scan(&self, table: &Keyspace, each: &mut ScannedEntry<'_>) -> Result<(), TierError> {
        for entry in table.iter() {
            let (key, value) = entry.into_inner().map_err(self.fault("cannot read"))?;
            if let ControlFlow::Break(()) = each(&key, &value)? {
                break;
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), TierError> {
        self.db.persist(PersistMode::SyncAll).map_err(self.fault("cannot write to"))
    }
}

//! A RocksDB database with tables as HugeCTR lays them out: either goes on with the other's.
//!
//! A table is a column family by its tag; keys are little-endian, rows have no header. Records are
//! in the default family, which HugeCTR leaves alone, under `terrace.table.<tag>`.

use std::ops::ControlFlow;

use terrace_rocksdb::{Durability, Family, KeyValue, RocksDb};
use terrace_tiers::TierError;

use super::ingest_folder::IngestFolder;
use super::key_code::ByteOrder;
use super::key_value_db::{DbSettings, FoundValue, KeyValueDb, ScannedEntry};
use super::ordered_rows::{OrderedKeys, OrderedRows};
use super::rocks_fault::rocks_fault;

pub struct RocksTables {
    db: RocksDb,
    settings: DbSettings,
    /// `None` where nothing is written.
    ingest: Option<IngestFolder>,
}

/// Of one write, whatever the configured number of rows: RocksDB keeps it in memory twice.
const BATCH_BYTES: usize = 4 << 20;
/// Of rows that are worth files of their own: below it, a log and a memtable are faster.
const INGEST_BYTES_MIN: usize = 1 << 20;
const DEFAULT_FAMILY: &str = "default";

impl RocksTables {
    pub fn new(db: RocksDb, settings: DbSettings) -> Result<Self, TierError> {
        let ingest = match settings.read_only {
            true => None,
            false => Some(IngestFolder::open(&settings.path)?),
        };
        Ok(RocksTables { db, settings, ingest })
    }

    /// By its name at each call: a handle of RocksDB's cannot be kept beside its database.
    fn family(&self, name: &str) -> Result<Family<'_>, TierError> {
        self.db.family(name).ok_or_else(|| {
            let path = self.settings.path.display();
            TierError::Unavailable(format!("rocksdb: table {name} in {path} was removed"))
        })
    }

    /// Hands the log to the system: an ended process loses nothing.
    fn flush_log(&self) -> Result<(), TierError> {
        self.db.flush_wal().map_err(rocks_fault)
    }
}

impl KeyValueDb for RocksTables {
    const NAME: &'static str = "rocksdb";
    const ORDER: ByteOrder = ByteOrder::Little;

    /// Its name.
    type Table = String;

    fn settings(&self) -> &DbSettings {
        &self.settings
    }

    fn table_names(&self) -> Vec<String> {
        self.db.family_names()
    }

    fn open_table(&self, name: &str) -> Result<Option<String>, TierError> {
        Ok(self.db.family(name).map(|_| name.to_owned()))
    }

    fn make_table(&self, name: &str) -> Result<String, TierError> {
        self.db.create_family(name).map_err(rocks_fault)?;
        Ok(name.to_owned())
    }

    fn drop_table(&self, name: &str) -> Result<(), TierError> {
        self.db.drop_family(name).map_err(rocks_fault)
    }

    fn record(&self, table_name: &str) -> Result<Option<Vec<u8>>, TierError> {
        let (family, key) = (self.family(DEFAULT_FAMILY)?, record_key(table_name));
        let mut record = None;
        let found = &mut |_: usize, value: &[u8]| record = Some(value.to_vec());
        family.multi_get(&key, key.len(), found).map_err(rocks_fault)?;
        Ok(record)
    }

    fn write_record(&self, table_name: &str, record: Option<&[u8]>) -> Result<(), TierError> {
        let (family, key) = (self.family(DEFAULT_FAMILY)?, record_key(table_name));
        let mut batch = self.db.write_batch();
        let change = match record {
            Some(record) => batch.put(&family, &key, record),
            None => batch.delete(&family, &key),
        };
        // Files that were ingested are on the disk already; the log brings all before it along.
        change.and_then(|()| batch.write(Durability::SyncedWal)).map_err(rocks_fault)
    }

    fn get(
        &self,
        table: &String,
        keys: OrderedKeys<'_>,
        found: &mut FoundValue<'_>,
    ) -> Result<(), TierError> {
        let family = self.family(table)?;
        let (batch, key_bytes) = (self.settings.batches.read_rows, keys.code.kind.bytes());
        let mut result = Ok(());
        for (index, part) in keys.chunks(batch).enumerate() {
            let first = index * batch.max(1);
            let found = &mut |place: usize, value: &[u8]| found(first + place, value);
            let read = family.multi_get(&part.concatenated(), key_bytes, found);
            result = result.and(read.map_err(rocks_fault));
        }
        result
    }

    fn put(&self, table: &String, rows: OrderedRows<'_>) -> Result<(), TierError> {
        let family = self.family(table)?;
        let mut batch = self.db.write_batch();
        for part in rows.chunks(self.settings.batches.write_rows, BATCH_BYTES) {
            batch.clear();
            let put = part.each(|key, value| batch.put(&family, key, value));
            put.and_then(|()| batch.write(Durability::Wal)).map_err(rocks_fault)?;
        }
        self.flush_log()
    }

    fn load(&self, table: &String, rows: OrderedRows<'_>) -> Result<(), TierError> {
        match &self.ingest {
            Some(ingest) if rows.bytes() >= INGEST_BYTES_MIN => {
                ingest.ingest(&self.db, &self.family(table)?, rows)
            }
            _ => self.put(table, rows),
        }
    }

    fn delete(&self, table: &String, keys: OrderedKeys<'_>) -> Result<(), TierError> {
        let family = self.family(table)?;
        let mut batch = self.db.write_batch();
        for part in keys.chunks(self.settings.batches.write_rows) {
            batch.clear();
            let deleted = part.each(|key| batch.delete(&family, key));
            deleted.and_then(|()| batch.write(Durability::Wal)).map_err(rocks_fault)?;
        }
        self.flush_log()
    }

    fn estimate_rows(&self, table: &String) -> Result<u64, TierError> {
        self.family(table)?.estimate_keys().map_err(rocks_fault)
    }

    fn scan(&self, table: &String, each: &mut ScannedEntry<'_>) -> Result<(), TierError> {
        let mut entries = self.family(table)?.iterate(None);
        while let Some(KeyValue { key, value }) = entries.next_row().map_err(rocks_fault)? {
            if let ControlFlow::Break(()) = each(key, value)? {
                break;
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), TierError> {
        self.db.sync_wal().map_err(rocks_fault)
    }
}

fn record_key(table_name: &str) -> Vec<u8> {
    format!("terrace.table.{table_name}").into_bytes()
}

//! Files of sorted rows on their way into a RocksDB database: written in a folder inside of its
//! own, so that they are moved and not copied. What an ended process left is deleted.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_rocksdb::{Family, IngestFiles, RocksDb, RocksError};
use terrace_tiers::TierError;

use super::folder_fault::folder_fault;
use super::ordered_rows::OrderedRows;
use super::rocks_fault::rocks_fault;

pub struct IngestFolder {
    path: PathBuf,
    /// Of the next file.
    next: AtomicU64,
}

const NAME: &str = "terrace.ingest";
/// Some of RocksDB's own, which have 64 MiB: a larger batch still is few files.
const FILE_BYTES: usize = 256 << 20;

impl IngestFolder {
    /// Of the database in `db_path`; empty.
    pub fn open(db_path: &Path) -> Result<Self, TierError> {
        let path = db_path.join(NAME);
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(folder_fault("cannot clear", &path)(error));
            }
            _ => {}
        }
        std::fs::create_dir_all(&path).map_err(folder_fault("cannot make", &path))?;
        Ok(IngestFolder { path, next: AtomicU64::new(0) })
    }

    /// Brings the rows into the family, above what it has.
    pub fn ingest(
        &self,
        db: &RocksDb,
        family: &Family<'_>,
        rows: OrderedRows<'_>,
    ) -> Result<(), TierError> {
        let mut files = Vec::new();
        let ingested = self.write_files(db, rows, &mut files);
        let ingested = ingested.and_then(|()| family.ingest(&files, IngestFiles::Move));
        if ingested.is_err() {
            for file in &files {
                // They may not exist; what stays is cleared when the database is opened again.
                let _ = std::fs::remove_file(file);
            }
        }
        ingested.map_err(rocks_fault)
    }

    fn write_files(
        &self,
        db: &RocksDb,
        rows: OrderedRows<'_>,
        files: &mut Vec<PathBuf>,
    ) -> Result<(), RocksError> {
        for part in rows.chunks(usize::MAX, FILE_BYTES) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            files.push(self.path.join(format!("{number}.sst")));
            let mut writer = db.sst_writer(files.last().expect("pushed above"))?;
            part.each(|key, value| writer.put(key, value))?;
            writer.finish()?;
        }
        Ok(())
    }
}

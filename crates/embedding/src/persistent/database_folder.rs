//! A database's folder, by what lies in it: which kind it is, and who has it open.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_rocksdb::{RocksLibrary, is_rocksdb_folder};
use terrace_tiers::TierError;

use super::embedded_folder::{FJALL_LOCK, is_embedded_folder};
use super::open_persistent::{FolderAccess, open_embedded, open_rocks};
use super::rocks_fault::rocks_fault;
use crate::config::{BatchSizes, PersistentKind};
use crate::row_database::RowDatabase;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseFolder {
    pub path: PathBuf,
    pub kind: PersistentKind,
}

const THREADS: u32 = 4;
const BATCHES: BatchSizes = BatchSizes { read_rows: 1 << 16, write_rows: 1 << 16 };

impl DatabaseFolder {
    /// `None` where no database is.
    pub fn find(path: &Path) -> Option<Self> {
        let kind = match (is_rocksdb_folder(path), is_embedded_folder(path)) {
            (true, _) => PersistentKind::RocksDb,
            (false, true) => PersistentKind::Embedded,
            (false, false) => return None,
        };
        Some(DatabaseFolder { path: path.to_owned(), kind })
    }

    /// Nothing is written. A RocksDB that another process writes can be read, too, as it is now.
    pub fn open_to_read(
        &self,
        library_folders: &[PathBuf],
    ) -> Result<Arc<dyn RowDatabase>, TierError> {
        self.open(library_folders, true)
    }

    /// Makes it where there is none. No other kind takes its place.
    pub fn open_to_write(
        &self,
        library_folders: &[PathBuf],
    ) -> Result<Arc<dyn RowDatabase>, TierError> {
        self.open(library_folders, false)
    }

    fn open(
        &self,
        library_folders: &[PathBuf],
        read_only: bool,
    ) -> Result<Arc<dyn RowDatabase>, TierError> {
        let (path, num_threads, batches) = (&self.path, THREADS, BATCHES);
        let access = FolderAccess { path, num_threads, read_only, batches };
        match self.kind {
            PersistentKind::Embedded => open_embedded(access),
            PersistentKind::RocksDb => {
                open_rocks(access, &RocksLibrary::load(library_folders).map_err(rocks_fault)?)
            }
        }
    }

    /// Whether another process has it open, so that this one cannot: an embedded store is one
    /// process's.
    pub fn is_in_use(&self) -> bool {
        if self.kind != PersistentKind::Embedded {
            return false;
        }
        let Ok(lock) = File::open(self.path.join(FJALL_LOCK)) else { return false };
        matches!(lock.try_lock(), Err(TryLockError::WouldBlock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_known_by_what_lies_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert_eq!(DatabaseFolder::find(path), None);
        assert_eq!(DatabaseFolder::find(&path.join("none")), None);
        let embedded = DatabaseFolder { path: path.to_owned(), kind: PersistentKind::Embedded };
        assert!(embedded.open_to_read(&[]).is_err(), "there is none");
        let database = embedded.open_to_write(&[]).unwrap();
        assert_eq!(DatabaseFolder::find(path), Some(embedded.clone()));
        assert!(embedded.is_in_use());
        drop(database);
        assert!(!embedded.is_in_use());
        assert_eq!(embedded.open_to_read(&[]).unwrap().name(), "embedded");
        let rocks = path.join("rocks");
        std::fs::create_dir(&rocks).unwrap();
        std::fs::write(rocks.join("CURRENT"), "MANIFEST-000005\n").unwrap();
        assert_eq!(DatabaseFolder::find(&rocks).unwrap().kind, PersistentKind::RocksDb);
    }
}

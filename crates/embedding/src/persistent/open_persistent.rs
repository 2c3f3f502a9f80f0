//! Which database a configuration means, on this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_rocksdb::{RocksError, RocksLibrary, is_rocksdb_folder};
use terrace_tiers::TierError;

use super::embedded_database::{EmbeddedDatabase, EmbeddedDatabaseConfig};
use super::rocks_database::{RocksDatabase, RocksDatabaseConfig};
use super::rocks_fault::rocks_fault;
use crate::config::{BatchSizes, PersistentConfig, PersistentKind};
use crate::row_database::RowDatabase;

/// Of blocks; what the system caches comes on top.
const CACHE_BYTES: usize = 256 << 20;
/// What RocksDB would let one table take.
const WRITE_BUFFER_BYTES: usize = 128 << 20;

/// Opens it, and says what differs from the configuration. Without RocksDB's library, which is
/// looked for in `library_folders` first, an embedded store takes its place, unless the folder is
/// RocksDB's already.
pub fn open_persistent(
    config: &PersistentConfig,
    library_folders: &[PathBuf],
) -> Result<(Arc<dyn RowDatabase>, Option<String>), TierError> {
    match config.kind {
        PersistentKind::Embedded => Ok((open_embedded(FolderAccess::of(config))?, None)),
        PersistentKind::RocksDb => open_with(config, RocksLibrary::load(library_folders)),
    }
}

fn open_with(
    config: &PersistentConfig,
    library: Result<Arc<RocksLibrary>, RocksError>,
) -> Result<(Arc<dyn RowDatabase>, Option<String>), TierError> {
    match library {
        Ok(library) => Ok((open_rocks(FolderAccess::of(config), &library)?, None)),
        Err(error @ RocksError::LibraryNotFound { .. }) => without_rocks(config, &error),
        Err(error) => Err(rocks_fault(error)),
    }
}

fn without_rocks(
    config: &PersistentConfig,
    missing: &RocksError,
) -> Result<(Arc<dyn RowDatabase>, Option<String>), TierError> {
    let path = config.path.display();
    if is_rocksdb_folder(&config.path) {
        return Err(TierError::Unavailable(format!(
            "rocksdb: {path} is a folder of RocksDB, and {missing}; with the library, terrace ps \
             migrate copies it for machines without"
        )));
    }
    let warning = format!(
        "persistent_db has the type rocksdb, and {missing}; an embedded store takes its place in \
         {path}: set type to embedded if that is what you want"
    );
    Ok((open_embedded(FolderAccess::of(config))?, Some(warning)))
}

/// How a folder is opened.
#[derive(Clone, Copy)]
pub struct FolderAccess<'a> {
    pub path: &'a Path,
    pub num_threads: u32,
    pub read_only: bool,
    pub batches: BatchSizes,
}

impl<'a> FolderAccess<'a> {
    fn of(config: &'a PersistentConfig) -> Self {
        FolderAccess {
            path: &config.path,
            num_threads: config.num_threads,
            read_only: config.read_only,
            batches: config.batches,
        }
    }
}

pub fn open_rocks(
    access: FolderAccess<'_>,
    library: &Arc<RocksLibrary>,
) -> Result<Arc<dyn RowDatabase>, TierError> {
    let config = RocksDatabaseConfig {
        path: access.path.to_owned(),
        read_only: access.read_only,
        num_threads: access.num_threads,
        block_cache_bytes: CACHE_BYTES,
        write_buffer_bytes: WRITE_BUFFER_BYTES,
        batches: access.batches,
    };
    Ok(Arc::new(RocksDatabase::open(config, library)?))
}

pub fn open_embedded(access: FolderAccess<'_>) -> Result<Arc<dyn RowDatabase>, TierError> {
    Ok(Arc::new(EmbeddedDatabase::open(EmbeddedDatabaseConfig {
        path: access.path.to_owned(),
        read_only: access.read_only,
        num_threads: access.num_threads,
        cache_bytes: CACHE_BYTES,
        write_buffer_bytes: WRITE_BUFFER_BYTES,
        batches: access.batches,
    })?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::{PsConfig, Surroundings};

    fn config(path: &Path) -> PersistentConfig {
        let value = json!({
            "supportlonglong": true,
            "models": [{ "model": "m", "sparse_files": ["a"] }],
            "persistent_db": { "type": "rocksdb", "path": path },
        });
        let around = Surroundings { folder: None, model_name: None, cores: 2 };
        PsConfig::from_value(&value, &around).unwrap().0.persistent.unwrap()
    }

    fn no_library() -> Result<Arc<RocksLibrary>, RocksError> {
        Err(RocksError::LibraryNotFound { looked: "looked in /lib".to_owned() })
    }

    #[test]
    fn without_the_library_an_embedded_store_takes_its_place_with_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        for _ in 0..2 {
            let (database, warning) = open_with(&config, no_library()).unwrap();
            assert_eq!(database.name(), "embedded");
            let warning = warning.unwrap();
            for part in ["looked in /lib", "apt-get install", "embedded", "type rocksdb"] {
                assert!(warning.contains(part), "no {part} in: {warning}");
            }
        }
    }

    #[test]
    fn without_the_library_a_folder_of_rocksdb_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("CURRENT"), "MANIFEST-000005\n").unwrap();
        let error = open_with(&config(folder.path()), no_library()).err().unwrap();
        assert_eq!(error.kind(), "unavailable");
        let text = error.to_string();
        let path = folder.path().display().to_string();
        for part in ["apt-get install librocksdb7.8", "terrace ps migrate", &path] {
            assert!(text.contains(part), "no {part} in: {text}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is made");
    }
}

//! The database in RocksDB, through the library that is installed.

use std::path::PathBuf;
use std::sync::Arc;

use terrace_rocksdb::{RocksDb, RocksLibrary, RocksOptions};
use terrace_tiers::TierError;

use super::embedded_folder::is_embedded_folder;
use super::key_value_database::KeyValueDatabase;
use super::key_value_db::DbSettings;
use super::rocks_fault::rocks_fault;
use super::rocks_tables::RocksTables;
use crate::config::BatchSizes;

pub type RocksDatabase = KeyValueDatabase<RocksTables>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RocksDatabaseConfig {
    pub path: PathBuf,
    /// Nothing is written and no lock is taken: several processes may read one folder.
    pub read_only: bool,
    /// For flushes and compactions, and for one look-up.
    pub num_threads: u32,
    /// Of blocks in memory, for all tables.
    pub block_cache_bytes: usize,
    /// Of what is not yet in files, for all tables.
    pub write_buffer_bytes: usize,
    pub batches: BatchSizes,
}

/// A process may often have no more than 1024. Each of RocksDB's files of 64 MiB takes less than a
/// megabyte of memory while it is open, for its index and its filter.
const OPEN_FILES_MAX: u32 = 900;

impl RocksDatabase {
    /// Makes it where there is none, unless it is to be read only.
    pub fn open(
        config: RocksDatabaseConfig,
        library: &Arc<RocksLibrary>,
    ) -> Result<Self, TierError> {
        if is_embedded_folder(&config.path) {
            return Err(TierError::Protocol(format!(
                "rocksdb: {} has the tables of a store of type embedded; set type to embedded, or \
                 copy them with terrace ps migrate",
                config.path.display()
            )));
        }
        let options = RocksOptions {
            read_only: config.read_only,
            num_threads: config.num_threads,
            block_cache_bytes: config.block_cache_bytes,
            write_buffer_bytes: config.write_buffer_bytes,
            max_open_files: Some(OPEN_FILES_MAX),
            cache_index_and_filter_blocks: false,
        };
        let db = RocksDb::open(library, &config.path, &options).map_err(rocks_fault)?;
        let settings = DbSettings {
            path: config.path,
            read_only: config.read_only,
            batches: config.batches,
            lookup_threads: config.num_threads as usize,
        };
        Ok(KeyValueDatabase::new(RocksTables::new(db, settings)?))
    }
}

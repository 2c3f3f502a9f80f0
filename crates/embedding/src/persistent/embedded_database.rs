//! The database in fjall, which is compiled in: it needs nothing but a folder.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use fjall::Database;
use terrace_tiers::TierError;

use super::embedded_fault::embedded_fault;
use super::embedded_folder::prepare_folder;
use super::embedded_tables::EmbeddedTables;
use super::key_value_database::KeyValueDatabase;
use super::key_value_db::DbSettings;
use crate::config::BatchSizes;

pub type EmbeddedDatabase = KeyValueDatabase<EmbeddedTables>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedDatabaseConfig {
    pub path: PathBuf,
    /// Writes are refused. The folder is one process's all the same, which finishes there what an
    /// ended one began: fjall cannot open it otherwise.
    pub read_only: bool,
    /// Of one look-up.
    pub num_threads: u32,
    /// Of blocks in memory, for all tables.
    pub cache_bytes: usize,
    /// Of what is not yet in files, for all tables.
    pub write_buffer_bytes: usize,
    pub batches: BatchSizes,
}

/// fjall merges on all of its threads but the first, which then turns round and round until they
/// are done, unless it is the only one.
const WORKER_THREADS: usize = 1;

impl EmbeddedDatabase {
    /// Makes it where there is none, unless it is to be read only.
    pub fn open(config: EmbeddedDatabaseConfig) -> Result<Self, TierError> {
        prepare_folder(&config.path, config.read_only)?;
        let opened = open_fjall(&config);
        let buffer = config.write_buffer_bytes;
        let db = opened.map_err(embedded_fault("cannot open", &config.path, buffer))?;
        let settings = DbSettings {
            path: config.path,
            read_only: config.read_only,
            batches: config.batches,
            lookup_threads: config.num_threads as usize,
        };
        Ok(KeyValueDatabase::new(EmbeddedTables::new(db, settings, buffer)?))
    }
}

/// fjall asserts some of what it reads in a journal, so a damaged one makes it panic. Nothing that
/// it had opened by then is used.
fn open_fjall(config: &EmbeddedDatabaseConfig) -> fjall::Result<Database> {
    let database = Database::builder(&config.path)
        .cache_size(config.cache_bytes as u64)
        .worker_threads(WORKER_THREADS);
    let opened = catch_unwind(AssertUnwindSafe(|| database.open()));
    opened.unwrap_or(Err(fjall::Error::Unrecoverable))
}

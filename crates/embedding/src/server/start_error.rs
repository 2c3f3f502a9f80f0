//! Why tables cannot be served.

use terrace_tiers::TierError;

use crate::error::Error;
use crate::feed::FeedError;
use crate::load::LoadError;
use crate::lookup::UpdateError;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("table {table}: {error}")]
    Load { table: String, error: LoadError },
    #[error("table {table}: {error}")]
    Level { table: String, error: TierError },
    #[error("table {table}: {error}")]
    Cache { table: String, error: Error },
    #[error(
        "table {table} has no files here ({error}), and no database has its rows; give the folders \
         of sparse_files"
    )]
    NoFiles { table: String, error: LoadError },
    #[error(
        "table {table}: embedding_vecsize_per_table is not given, and neither files nor a database \
         say how wide its rows are; add it"
    )]
    NoWidth { table: String },
    #[error("a hot cache of {rows} rows of {dim} numbers cannot be counted; lower gpucacheper")]
    CacheTooLarge { rows: u64, dim: usize },
    #[error(
        "table {table}: device {device} is named in deployed_device_list, and there are {have}"
    )]
    NoDevice { table: String, device: u32, have: usize },
    #[error(
        "placement = \"auto\": table {table} has {bytes} bytes, more than fits beside the others \
         in {ram_bytes} bytes of memory, and there is no persistent_db; add one"
    )]
    NoRoom { table: String, bytes: u64, ram_bytes: u64 },
    #[error(
        "{key} is another one than when this process opened its databases; restart it to change \
         that, or set it as it was"
    )]
    OtherDatabases { key: String },
    #[error(
        "table {table}: {why}, so no second version of it can be loaded, and the one that the \
         database has is served already with other settings or files; mend that, or unload that \
         version first"
    )]
    InUse { table: String, why: &'static str },
    #[error(transparent)]
    Database(#[from] TierError),
    #[error(transparent)]
    Feed(#[from] FeedError),
    #[error("a thread cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}

impl StartError {
    pub(super) fn level(table: &str) -> impl Fn(TierError) -> Self + '_ {
        |error| StartError::Level { table: table.to_owned(), error }
    }

    pub(super) fn of_update(table: &str) -> impl Fn(UpdateError) -> Self + '_ {
        |error| match error {
            UpdateError::Level(error) => StartError::Level { table: table.to_owned(), error },
            UpdateError::Cache(error) => StartError::Cache { table: table.to_owned(), error },
        }
    }
}

//! The levels of a configuration, opened to be read by a command beside servers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use terrace_embedding::{
    DatabaseFolder, PersistentConfig, PsConfig, RedisDatabase, RedisLevelConfig, RowDatabase,
    open_persistent,
};

/// The longest that an answer of Redis may take.
const REDIS_TIME: Duration = Duration::from_secs(10);

#[derive(Args, Debug)]
pub struct LibraryArgs {
    /// Folder with RocksDB's library; the system's folders are looked into behind it.
    #[arg(long, value_name = "FOLDER")]
    library: Option<PathBuf>,
}

impl LibraryArgs {
    pub fn folders(&self) -> Vec<PathBuf> {
        self.library.iter().cloned().collect()
    }
}

/// `None` where the configuration has none. `table` is what the user asks for.
pub fn open_database(
    config: &PsConfig,
    library: &LibraryArgs,
    table: &str,
) -> Result<Option<Arc<dyn RowDatabase>>> {
    let Some(persistent) = &config.persistent else { return Ok(None) };
    let to_read = PersistentConfig { read_only: true, ..persistent.clone() };
    match open_persistent(&to_read, &library.folders()) {
        Ok((database, warning)) => {
            warning.iter().for_each(|warning| eprintln!("warning: {warning}"));
            Ok(Some(database))
        }
        Err(error) => {
            let folder = DatabaseFolder::find(&to_read.path);
            if folder.is_some_and(|folder| folder.is_in_use()) {
                bail!(
                    "{} is open in another process, such as a server: ask that one \
                     (POST /v1/tables/{table}/lookup), or stop it",
                    to_read.path.display()
                );
            }
            Err(error.into())
        }
    }
}

/// `None` where the configuration has none. No row counts as used by what is read.
pub fn connect_redis(config: &PsConfig) -> Result<Option<RedisDatabase>> {
    let Some(redis) = &config.redis else { return Ok(None) };
    let mut unmarked: RedisLevelConfig = redis.clone();
    // Only levels with a margin mark what is read.
    unmarked.fill.overflow.margin = u64::MAX;
    Ok(Some(RedisDatabase::connect(&unmarked, config.partition_rule, REDIS_TIME)?))
}

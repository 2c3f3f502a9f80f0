//! What all sets of tables of a process have in common: open databases, threads and devices.
//!
//! They are opened once. Sets come and go, and find the tables here that others serve already.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use terrace_device::Device;

use super::live_table::{LiveTable, TableIdentity};
use super::placement::PlaceBudgets;
use super::start_error::StartError;
use super::storage_claims::StorageClaims;
use super::update_feeds::FeedSource;
use crate::config::PsConfig;
use crate::levels::ReadThreads;
use crate::lookup::FillThreads;
use crate::persistent::open_persistent;
use crate::redis::RedisDatabase;
use crate::row_database::RowDatabase;
use crate::table_tag::TableTag;

pub struct SharedDatabases {
    config: PsConfig,
    options: DatabaseOptions,
    persistent: Option<Arc<dyn RowDatabase>>,
    redis: Option<RedisDatabase>,
    fills: Arc<FillThreads>,
    reads: Arc<ReadThreads>,
    claims: Arc<StorageClaims>,
    /// In the order in which they were started.
    living: Mutex<Vec<Living>>,
}

struct Living {
    storage: Option<TableTag>,
    table: Weak<LiveTable>,
}

/// What holds for all tables.
#[derive(Clone)]
pub struct DatabaseOptions {
    /// By the numbers that the configuration gives them; one CPU stands for all.
    pub devices: Vec<Device>,
    /// In the names of Kafka's groups.
    pub host_name: String,
    /// Where RocksDB is looked for first.
    pub library_folders: Vec<PathBuf>,
    /// The longest that a look-up waits for Redis, and for the persistent level.
    pub redis_time: Duration,
    pub read_time: Duration,
    /// Threads that bring missing rows into hot caches, and as many that read the persistent level.
    pub threads: usize,
    /// What `placement = "auto"` may take.
    pub budgets: PlaceBudgets,
}

/// For fills that are under way at the end.
const DRAIN_LONGEST: Duration = Duration::from_secs(5);

impl SharedDatabases {
    /// Its models are not looked at. Calls `say` with what the user should know.
    pub fn open(
        config: &PsConfig,
        options: DatabaseOptions,
        say: &mut dyn FnMut(String),
    ) -> Result<Arc<Self>, StartError> {
        let persistent = match &config.persistent {
            None => None,
            Some(config) => {
                let (database, warning) = open_persistent(config, &options.library_folders)?;
                warning.into_iter().for_each(say);
                Some(database)
            }
        };
        let redis = config.redis.as_ref();
        let redis = redis
            .map(|redis| RedisDatabase::connect(redis, config.partition_rule, options.redis_time));
        Ok(Arc::new(SharedDatabases {
            config: config.clone(),
            persistent,
            redis: redis.transpose()?,
            fills: Arc::new(FillThreads::start(options.threads)?),
            reads: Arc::new(ReadThreads::start(options.threads)?),
            options,
            claims: Arc::default(),
            living: Mutex::default(),
        }))
    }

    /// Whether a configuration that was read again means these databases.
    pub(super) fn check(&self, config: &PsConfig) -> Result<(), StartError> {
        match self.config.database_difference(config) {
            None => Ok(()),
            Some(key) => Err(StartError::OtherDatabases { key }),
        }
    }

    pub(super) fn options(&self) -> &DatabaseOptions {
        &self.options
    }

    pub(super) fn persistent(&self) -> Option<&Arc<dyn RowDatabase>> {
        self.persistent.as_ref()
    }

    pub(super) fn redis(&self) -> Option<&RedisDatabase> {
        self.redis.as_ref()
    }

    pub(super) fn fills(&self) -> &Arc<FillThreads> {
        &self.fills
    }

    pub(super) fn reads(&self) -> &Arc<ReadThreads> {
        &self.reads
    }

    pub(super) fn claims(&self) -> &Arc<StorageClaims> {
        &self.claims
    }

    /// `None` without an update source.
    pub(super) fn feed_source(&self) -> Option<FeedSource> {
        let kafka = self.config.update_source.clone()?;
        let host_name = self.options.host_name.clone();
        Some(FeedSource { kafka, host_name, keeps_rows: self.keeps_rows() })
    }

    /// Whether updates survive a restart here.
    pub(super) fn keeps_rows(&self) -> bool {
        self.config.persistent.as_ref().is_some_and(|it| !it.read_only)
    }

    /// What tables that start now may take beside those that are served.
    pub(super) fn budgets(&self) -> PlaceBudgets {
        let placed = self.living().into_iter().filter_map(|live| live.placed());
        placed.fold(self.options.budgets, |left, (place, bytes)| left.beside(place, bytes))
    }

    /// A table that is served and is right for whoever wants this one.
    pub(super) fn serving(&self, wanted: &TableIdentity) -> Option<Arc<LiveTable>> {
        let is_on_gpus = !matches!(self.options.devices[..], [Device::Cpu]);
        self.living().into_iter().rev().find(|live| live.serves(wanted, is_on_gpus))
    }

    /// Other versions of a table that are served, the newest last.
    pub(super) fn others(&self, tag: &TableTag) -> Vec<Arc<LiveTable>> {
        self.living().into_iter().filter(|live| live.tag() == tag).collect()
    }

    /// Whether somebody serves the table in a storage. It is asked for while storages are claimed,
    /// so no table may end here.
    pub(super) fn is_living(&self, storage: &TableTag) -> bool {
        let is_it =
            |it: &Living| it.storage.as_ref() == Some(storage) && it.table.strong_count() > 0;
        self.lock().iter().any(is_it)
    }

    pub(super) fn add(&self, live: &Arc<LiveTable>) {
        let mut living = self.lock();
        living.retain(|it| it.table.strong_count() > 0);
        living.push(Living { storage: live.storage(), table: Arc::downgrade(live) });
        drop(living);
        live.note_started();
    }

    fn living(&self) -> Vec<Arc<LiveTable>> {
        // Not dropped while it is locked: what was the last may end its table.
        self.lock().iter().filter_map(|it| it.table.upgrade()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Living>> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SharedDatabases {
    fn drop(&mut self) {
        // They hold the databases open.
        self.fills.drain(DRAIN_LONGEST);
    }
}

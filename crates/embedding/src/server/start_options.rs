//! How tables are started, and who hears of it.

use std::path::PathBuf;
use std::time::Duration;

use terrace_device::Device;

use super::placement::PlaceBudgets;
use super::shared_databases::DatabaseOptions;
use super::table_plan::OpenFolder;
use super::table_start::StartProgress;

/// Of a process that serves one set of tables: those of its databases and of the set.
pub struct StartOptions<'a> {
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
    pub open: &'a OpenFolder<'a>,
    /// Called with the tag of a table.
    pub progress: &'a mut dyn FnMut(&str, StartProgress),
    /// Called with what the user should know.
    pub say: &'a mut dyn FnMut(String),
}

/// Of one set of tables.
pub struct SetOptions<'a> {
    pub open: &'a OpenFolder<'a>,
    /// Called with the tag of a table.
    pub progress: &'a mut dyn FnMut(&str, StartProgress),
    /// Called with what the user should know.
    pub say: &'a mut dyn FnMut(String),
}

impl<'a> StartOptions<'a> {
    pub(super) fn split(self) -> (DatabaseOptions, SetOptions<'a>) {
        let StartOptions { devices, host_name, library_folders, redis_time, .. } = self;
        let StartOptions { read_time, threads, budgets, open, progress, say, .. } = self;
        let databases = DatabaseOptions {
            devices,
            host_name,
            library_folders,
            redis_time,
            read_time,
            threads,
            budgets,
        };
        (databases, SetOptions { open, progress, say })
    }
}

//! A table in Redis, and whose rows are there as far as this server knows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fed_table::FedTable;
use super::table_plan::TableFiles;
use crate::levels::{Level, LevelKind};
use crate::lookup::ServedTable;
use crate::redis::{PartitionRun, RedisStore};

pub struct RedisKept {
    pub fed: Arc<FedTable>,
    pub store: Arc<RedisStore>,
    /// Of the files that its rows began with.
    pub version: String,
    pub files: Option<Arc<TableFiles>>,
    /// Rows that it is filled with; 0: others fill it.
    pub rows: u64,
    /// Partitions that were filled, and are trusted when their updates have come.
    filled: Mutex<Vec<PartitionRun>>,
    owner: Mutex<Owner>,
    is_over: AtomicBool,
}

/// Whose rows are in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This server has not looked, and takes over.
    Unknown,
    /// Those of its version.
    Own,
    /// Those of another version, which a server has brought that started later.
    Other,
    /// Another version of the table in this process takes over: this one does nothing there.
    GivenUp,
}

impl RedisKept {
    pub fn new(
        fed: Arc<FedTable>,
        store: Arc<RedisStore>,
        version: String,
        files: Option<Arc<TableFiles>>,
        rows: u64,
    ) -> Self {
        let (filled, owner) = (Mutex::default(), Mutex::new(Owner::Unknown));
        let is_over = AtomicBool::new(false);
        RedisKept { fed, store, version, files, rows, filled, owner, is_over }
    }

    /// `None` once nobody serves it.
    pub fn table(&self) -> Option<Arc<ServedTable>> {
        self.fed.table.upgrade().filter(|_| !self.is_over.load(Ordering::Acquire))
    }

    /// Whether nothing more is to be done for it in Redis, now.
    pub fn is_out(&self) -> bool {
        self.is_over.load(Ordering::Acquire) || *self.owner() == Owner::GivenUp
    }

    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Leaves Redis to another version of this process. Whether it had not before.
    pub fn give_up(&self) -> bool {
        let before = std::mem::replace(&mut *self.owner(), Owner::GivenUp);
        if let Some(table) = self.table() {
            redis_level(&table).set_suspended(persistent_level(&table).is_some());
        }
        before != Owner::GivenUp
    }

    /// Fills Redis again with its rows, if another version has.
    pub fn take_over(&self) {
        *self.owner() = Owner::Unknown;
        self.filled().clear();
    }

    pub fn who_owns(&self) -> Owner {
        *self.owner()
    }

    /// Unless it was given up meanwhile.
    pub fn set_owner(&self, new: Owner) {
        let mut owner = self.owner();
        if *owner != Owner::GivenUp {
            *owner = new;
        }
    }

    pub fn filled(&self) -> MutexGuard<'_, Vec<PartitionRun>> {
        self.filled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owner(&self) -> MutexGuard<'_, Owner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn redis_level(table: &ServedTable) -> &Level {
    table.levels().level(LevelKind::Redis).expect("a table that is kept in Redis")
}

pub fn persistent_level(table: &ServedTable) -> Option<&Level> {
    table.levels().level(LevelKind::Persistent)
}

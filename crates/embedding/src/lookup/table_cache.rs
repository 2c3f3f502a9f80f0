//! A table's hot cache on one device, and when its misses are waited for.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use terrace_device::Device;
use terrace_kernels::{CacheWrite, HotCacheShape};

use super::missing_rows::MissingRows;
use crate::error::Error;
use crate::hot_cache::HotCache;

pub struct TableCache {
    cache: HotCache,
    holds: CacheHolds,
    hit_rate_threshold: f64,
    /// Keys whose rows are on their way.
    pending: Mutex<HashSet<i64>>,
}

/// Which rows a hot cache has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheHolds {
    /// Those that were asked for last.
    Recent,
    /// All of the table.
    All,
}

#[derive(Clone, Debug)]
pub struct TableCacheConfig {
    pub shape: HotCacheShape,
    pub holds: CacheHolds,
    /// With fewer hits among the different keys of a look-up, it waits for the missing rows.
    pub hit_rate_threshold: f64,
}

impl TableCache {
    pub fn new(device: &Device, config: &TableCacheConfig) -> Result<Self, Error> {
        Ok(TableCache {
            cache: HotCache::new(device, config.shape)?,
            holds: config.holds,
            hit_rate_threshold: config.hit_rate_threshold,
            pending: Mutex::default(),
        })
    }

    pub fn cache(&self) -> &HotCache {
        &self.cache
    }

    pub fn holds(&self) -> CacheHolds {
        self.holds
    }

    /// How rows of keys that are not there are written.
    pub(super) fn fill_how(&self) -> CacheWrite {
        match self.holds {
            CacheHolds::Recent => CacheWrite::Evict,
            CacheHolds::All => CacheWrite::Resident,
        }
    }

    /// Whether a look-up with so many misses waits for their rows. At equality it does not. A cache
    /// of all rows misses what it has no room for: that would be on its way for ever.
    pub(super) fn waits(&self, missing: MissingRows, missed: usize, unique: usize) -> bool {
        let hit_rate = if unique == 0 { 1.0 } else { 1.0 - missed as f64 / unique as f64 };
        let always = missing == MissingRows::Fetched || self.holds == CacheHolds::All;
        missed > 0 && (always || hit_rate < self.hit_rate_threshold)
    }

    /// Those of `keys` that were not on their way yet; they are now.
    pub(super) fn claim(&self, keys: &[i64]) -> Vec<i64> {
        let mut pending = self.pending();
        keys.iter().copied().filter(|key| pending.insert(*key)).collect()
    }

    /// They have come, or do not come.
    pub(super) fn release(&self, keys: &[i64]) {
        let mut pending = self.pending();
        keys.iter().for_each(|key| {
            pending.remove(key);
        });
    }

    fn pending(&self) -> MutexGuard<'_, HashSet<i64>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

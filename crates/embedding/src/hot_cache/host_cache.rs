//! A hot cache in host memory, where the CPU computes.

use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use terrace_device::ViewMut;
use terrace_kernels::{CacheWrite, HostHotCache, HotCacheShape, Ops, PoolHostArgs};

use crate::error::Error;

pub struct HostCache {
    shape: HotCacheShape,
    cache: RwLock<HostHotCache>,
}

impl HostCache {
    pub(super) fn new(shape: HotCacheShape) -> Result<Self, Error> {
        Ok(HostCache { shape, cache: RwLock::new(HostHotCache::new(shape)?) })
    }

    /// As [`HostHotCache::query`].
    pub fn query(&self, keys: &[i64], default_value: f32, rows: &mut [f32], missed: &mut Vec<u32>) {
        self.read().query(keys, default_value, rows, missed);
    }

    /// As [`Ops::pool_host_cached`].
    pub fn pool(&self, ops: &Ops, args: PoolHostArgs<'_>, out: ViewMut<'_>) -> bool {
        ops.pool_host_cached(&self.read(), args, out)
    }

    pub(super) fn write(&self, keys: &[i64], rows: &[f32], how: CacheWrite) -> usize {
        self.cache.write().unwrap_or_else(PoisonError::into_inner).write(keys, rows, how)
    }

    pub fn shape(&self) -> HotCacheShape {
        self.shape
    }

    pub(super) fn keys_of(&self, sets: Range<u32>) -> Vec<i64> {
        let mut keys = Vec::new();
        self.read().keys_of(sets, &mut keys);
        keys
    }

    fn read(&self) -> RwLockReadGuard<'_, HostHotCache> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }
}

//! A hot cache in host memory, where the CPU computes.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use terrace_kernels::{CacheWrite, HostHotCache, HotCacheShape};

pub struct HostCache {
    shape: HotCacheShape,
    cache: Mutex<HostHotCache>,
}

impl HostCache {
    pub(super) fn new(shape: HotCacheShape) -> Self {
        HostCache { shape, cache: Mutex::new(HostHotCache::new(shape)) }
    }

    /// As [`HostHotCache::query`].
    pub fn query(&self, keys: &[i64], default_value: f32, rows: &mut [f32], missed: &mut Vec<u32>) {
        self.lock().query(keys, default_value, rows, missed);
    }

    pub(super) fn write(&self, keys: &[i64], rows: &[f32], how: CacheWrite) -> usize {
        self.lock().write(keys, rows, how)
    }

    pub fn shape(&self) -> HotCacheShape {
        self.shape
    }

    pub(super) fn keys_of(&self, sets: Range<u32>) -> Vec<i64> {
        let mut keys = Vec::new();
        self.lock().keys_of(sets, &mut keys);
        keys
    }

    fn lock(&self) -> MutexGuard<'_, HostHotCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Look-ups of embedding rows on one stream of a GPU.

use std::ops::Range;
use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{View, ViewMut};

use super::dedupe_keys::DedupeArgs;
use super::dedupe_keys::cuda::DedupeKernels;
use super::expand_rows::cuda::ExpandKernels;
use super::hot_cache::cuda::HotCacheKernels;
use super::hot_cache::{CudaHotCache, QueryArgs, WriteArgs};
use super::pool_cached::PoolCachedArgs;
use super::pool_cached::cuda::PoolCachedKernels;
use crate::error::Error;

/// What is launched comes in order; nothing waits.
pub struct GatherOps {
    device: Arc<CudaDevice>,
    dedupe: DedupeKernels,
    expand: ExpandKernels,
    hot_cache: HotCacheKernels,
    pool_cached: PoolCachedKernels,
}

impl GatherOps {
    /// On the stream of `device`. A hot cache may be used from streams of all of a GPU's handles.
    pub fn new(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        Ok(GatherOps {
            device: Arc::clone(device),
            dedupe: DedupeKernels::load(device)?,
            expand: ExpandKernels::load(device)?,
            hot_cache: HotCacheKernels::load(device)?,
            pool_cached: PoolCachedKernels::load(device)?,
        })
    }

    pub fn device(&self) -> &Arc<CudaDevice> {
        &self.device
    }

    pub fn dedupe(&self, args: DedupeArgs<'_>) {
        self.dedupe.dedupe(args);
    }

    /// from: f32 `[rows, dim]`, dense · index: i32 `[count]`, each below rows · to: f32
    /// `[count, dim]`, dense
    pub fn expand_rows(&self, from: View<'_>, index: View<'_>, to: ViewMut<'_>) {
        self.expand.expand(from, index, to);
    }

    /// from: f32 `[count, dim]`, dense · index: i32 `[count]`, each below rows, all different · to:
    /// f32 `[rows, dim]`, dense
    pub fn scatter_rows(&self, from: View<'_>, index: View<'_>, to: ViewMut<'_>) {
        self.expand.scatter(from, index, to);
    }

    /// Rows of keys; those that are not there get the default value and are listed, in any order.
    pub fn query(&self, cache: &CudaHotCache, args: QueryArgs<'_>) -> Result<(), Error> {
        self.hot_cache.query(cache, args)
    }

    /// What a query that is recorded, and launched later, is given then.
    pub fn begin_query(&self, cache: &CudaHotCache) -> Result<u32, Error> {
        self.hot_cache.begin_query(cache)
    }

    /// Rows of keys, pooled by slot.
    pub fn pool_cached(&self, cache: &CudaHotCache, args: PoolCachedArgs<'_>) -> Result<(), Error> {
        self.pool_cached.pool(cache, args)
    }

    pub fn write(&self, cache: &CudaHotCache, args: WriteArgs<'_>) -> Result<(), Error> {
        self.hot_cache.write(cache, args)
    }

    /// Lists the keys of some sets · keys: i64, room for all their slots · count: i32 `[1]`, zero
    /// before
    pub fn keys(
        &self,
        cache: &CudaHotCache,
        sets: Range<u32>,
        keys: ViewMut<'_>,
        count: ViewMut<'_>,
    ) -> Result<(), Error> {
        self.hot_cache.keys(cache, sets, keys, count)
    }
}

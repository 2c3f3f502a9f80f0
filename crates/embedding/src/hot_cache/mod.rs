//! Rows of hot keys where the model computes: one cache for each table and device, shared by all
//! who look up there.

mod cuda_cache;
mod host_cache;
mod staged_buffer;

use std::ops::Range;

use terrace_device::Device;
use terrace_kernels::{CacheWrite, HotCacheShape};

pub use cuda_cache::CudaCache;
pub use host_cache::HostCache;
pub(crate) use staged_buffer::StagedBuffer;

use crate::error::Error;

pub enum HotCache {
    Host(HostCache),
    Cuda(Box<CudaCache>),
}

impl HotCache {
    /// Empty.
    pub fn new(device: &Device, shape: HotCacheShape) -> Result<Self, Error> {
        Ok(match device {
            Device::Cpu => HotCache::Host(HostCache::new(shape)?),
            Device::Cuda(device) => HotCache::Cuda(Box::new(CudaCache::new(device, shape)?)),
        })
    }

    /// Puts rows in, behind everything that was put before; how many found no slot · rows:
    /// `[keys, dim]`
    pub fn write(&self, keys: &[i64], rows: &[f32], how: CacheWrite) -> Result<usize, Error> {
        match self {
            HotCache::Host(cache) => Ok(cache.write(keys, rows, how)),
            HotCache::Cuda(cache) => cache.write(keys, rows, how),
        }
    }

    /// Rows it has room for.
    pub fn slots(&self) -> usize {
        self.shape().slots()
    }

    fn shape(&self) -> HotCacheShape {
        match self {
            HotCache::Host(cache) => cache.shape(),
            HotCache::Cuda(cache) => cache.shape(),
        }
    }

    /// Sets that [`keys_of`](Self::keys_of) walks.
    pub fn sets(&self) -> u32 {
        self.shape().sets()
    }

    /// The keys of some sets.
    pub fn keys_of(&self, sets: Range<u32>) -> Result<Vec<i64>, Error> {
        match self {
            HotCache::Host(cache) => Ok(cache.keys_of(sets)),
            HotCache::Cuda(cache) => cache.keys_of(sets),
        }
    }
}

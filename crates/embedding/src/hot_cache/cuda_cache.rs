//! A hot cache in device memory, and the one stream that writes it.
//!
//! Look-ups query it on streams of their own. All writes go through one stream, so that they come
//! in the order in which they were asked for.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;
use terrace_kernels::{
    CacheWrite, CudaHotCache, GatherOps, HOT_CACHE_WAYS, HotCacheShape, WriteArgs,
};

use super::staged_buffer::StagedBuffer;
use crate::error::Error;

pub struct CudaCache {
    cache: CudaHotCache,
    /// Of its GPU.
    ordinal: usize,
    writer: Mutex<Writer>,
}

/// Rows of one launch.
const WRITE_ROWS: usize = 16 << 10;
/// Sets of one launch that lists keys.
const LISTED_SETS: u32 = (WRITE_ROWS / HOT_CACHE_WAYS) as u32;

struct Writer {
    ops: GatherOps,
    /// i64 `[WRITE_ROWS]`
    keys: StagedBuffer,
    /// f32 `[WRITE_ROWS, dim]`
    rows: StagedBuffer,
    /// i32 `[1]`: keys that found no slot
    refused: StagedBuffer,
    /// i32 `[1]`: keys that were listed
    listed: StagedBuffer,
}

impl CudaCache {
    pub(super) fn new(device: &Arc<CudaDevice>, shape: HotCacheShape) -> Result<Self, Error> {
        let cache = CudaHotCache::new(device, shape)?;
        // Of the same GPU, with a stream of its own.
        let stream = CudaDevice::open(device.info())?;
        let what = "rows on their way to a hot cache";
        let buffer = |bytes| StagedBuffer::new(&stream, bytes, what);
        let writer = Writer {
            ops: GatherOps::new(&stream)?,
            keys: buffer(WRITE_ROWS * size_of::<i64>())?,
            rows: buffer(WRITE_ROWS * shape.row_bytes())?,
            refused: buffer(size_of::<i32>())?,
            listed: buffer(size_of::<i32>())?,
        };
        Ok(CudaCache { cache, ordinal: device.info().ordinal, writer: Mutex::new(writer) })
    }

    pub fn shape(&self) -> HotCacheShape {
        self.cache.shape()
    }

    /// The number of its GPU.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// For queries.
    pub fn cache(&self) -> &CudaHotCache {
        &self.cache
    }

    pub(super) fn write(
        &self,
        keys: &[i64],
        rows: &[f32],
        how: CacheWrite,
    ) -> Result<usize, Error> {
        let dim = self.shape().dim();
        let mut writer = self.writer();
        let before = writer.refused.fetch_counts(1)?[0];
        for (keys, rows) in keys.chunks(WRITE_ROWS).zip(rows.chunks(WRITE_ROWS * dim)) {
            writer.write(&self.cache, keys, rows, how)?;
        }
        Ok(writer.refused.fetch_counts(1)?[0].wrapping_sub(before) as usize)
    }

    pub(super) fn keys_of(&self, sets: Range<u32>) -> Result<Vec<i64>, Error> {
        let mut writer = self.writer();
        let mut keys = Vec::new();
        let mut start = sets.start;
        while start < sets.end {
            let end = sets.end.min(start + LISTED_SETS);
            keys.extend(writer.list(&self.cache, start..end)?);
            start = end;
        }
        Ok(keys)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    /// Waits until the rows are in, so that the staging buffers can be used again.
    fn write(
        &mut self,
        cache: &CudaHotCache,
        keys: &[i64],
        rows: &[f32],
        how: CacheWrite,
    ) -> Result<(), Error> {
        let dim = cache.shape().dim();
        self.keys.bring_keys(keys);
        self.rows.bring_rows(rows, dim);
        self.ops.write(
            cache,
            WriteArgs {
                keys: self.keys.view(DType::I64, [keys.len()]),
                rows: self.rows.view(DType::F32, [keys.len(), dim]),
                row_at: None,
                how,
                refused: self.refused.view_mut(DType::I32, [1]),
            },
        )?;
        Ok(self.ops.device().synchronize()?)
    }

    fn list(&mut self, cache: &CudaHotCache, sets: Range<u32>) -> Result<Vec<i64>, Error> {
        let slots = sets.len() * HOT_CACHE_WAYS;
        self.ops.device().write(&self.listed.view_mut(DType::I32, [1]), &[0; 4])?;
        let keys = self.keys.view_mut(DType::I64, [slots]);
        self.ops.keys(cache, sets, keys, self.listed.view_mut(DType::I32, [1]))?;
        let count = self.listed.fetch_counts(1)?[0] as usize;
        self.keys.fetch_keys(count)
    }
}

//! A hot cache on a GPU with rows in it, and the buffers of its queries and writes.
//!
//! The key `number` has the row that `number` has modulo the keys of a write: one buffer of rows on
//! the device fills the whole cache.

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Result, ensure};
use terrace_device::cuda::CudaDevice;
use terrace_device::{Buffer, DType, Device, Element, View};
use terrace_kernels::{
    CacheWrite, CudaHotCache, GatherOps, HostHits, HotCacheShape, QueryArgs, WriteArgs,
};

use super::level_rows::{check_rows, rows_of};

pub struct GpuCache<'a> {
    ops: &'a GatherOps,
    cache: CudaHotCache,
    dim: usize,
    /// Of a write, and the most of a query.
    keys: usize,
    /// f32 `[keys, dim]`
    written: Buffer,
    rows: Buffer,
    /// i64 `[keys]`
    missed_keys: Buffer,
    /// i32 `[keys]`
    missed_at: Buffer,
    /// i32 `[1, 2]`: of a query, and of the next
    missed: Buffer,
    /// i32 `[1]`
    refused: Buffer,
    host_hits: HostHits,
    is_second: bool,
}

/// Rows that are brought back and compared.
const CHECKED_ROWS: usize = 1024;

impl<'a> GpuCache<'a> {
    pub fn new(ops: &'a GatherOps, shape: HotCacheShape, keys: usize) -> Result<Self> {
        let (device, dim) = (ops.device(), shape.dim());
        let memory = Device::Cuda(Arc::clone(device));
        let take = |bytes| memory.take(bytes, "keys and rows of queries");
        let first: Vec<i64> = (0..keys as i64).collect();
        Ok(GpuCache {
            ops,
            cache: CudaHotCache::new(device, shape)?,
            dim,
            keys,
            written: place(device, &rows_of(&first, dim), "rows to write")?,
            rows: take(keys * shape.row_bytes())?,
            missed_keys: take(keys * size_of::<i64>())?,
            missed_at: take(keys * size_of::<i32>())?,
            missed: take(2 * size_of::<i32>())?,
            refused: take(size_of::<i32>())?,
            host_hits: HostHits::new(device, keys)?,
            is_second: false,
        })
    }

    /// Writes rows of the keys `0..rows`.
    pub fn fill(&mut self, rows: usize, how: CacheWrite) -> Result<()> {
        for start in (0..rows).step_by(self.keys) {
            let end = rows.min(start + self.keys);
            let keys: Vec<i64> = (start as i64..end as i64).collect();
            let placed = place_keys(self.ops.device(), &keys)?;
            self.write(&placed, 0..keys.len(), how)?;
            // The keys are there until they were read.
            self.ops.device().synchronize()?;
        }
        let refused = self.refused()?;
        ensure!(refused == 0, "{refused} keys found no slot in a cache of {rows} rows");
        Ok(())
    }

    /// Writes rows for a range of the keys in `keys`, which are i64.
    pub fn write(&mut self, keys: &Buffer, range: Range<usize>, how: CacheWrite) -> Result<()> {
        let args = WriteArgs {
            keys: keys.view(DType::I64, [keys.len() / size_of::<i64>()]).rows(range.clone()),
            rows: self.written.view(DType::F32, [range.len(), self.dim]),
            row_at: None,
            how,
            refused: self.refused.view_mut(DType::I32, [1]),
        };
        Ok(self.ops.write(&self.cache, args)?)
    }

    /// Looks a range of the keys in `keys` up, which are i64. Rows begin at `row`.
    pub fn query(&mut self, keys: &Buffer, range: Range<usize>, row: usize) -> Result<()> {
        let count = range.len();
        let [missed, next] = self.missed.view_mut(DType::I32, [1, 2]).split_columns([1; 2]);
        let (missed, next_missed) = if self.is_second { (next, missed) } else { (missed, next) };
        self.is_second = !self.is_second;
        let rows = self.rows.view_mut(DType::F32, [self.keys, self.dim]);
        let args = QueryArgs {
            keys: keys.view(DType::I64, [keys.len() / size_of::<i64>()]).rows(range),
            unique: None,
            default_value: 0.0,
            rows: rows.rows(row..row + count),
            missed_keys: self.missed_keys.view_mut(DType::I64, [count]),
            missed_at: self.missed_at.view_mut(DType::I32, [count]),
            missed,
            next_missed,
            host_hits: Some(&mut self.host_hits),
        };
        Ok(self.ops.query(&self.cache, args)?)
    }

    /// Looks the first keys up, and refuses what is missing or wrong · keys: those in `placed`
    pub fn check(&mut self, keys: &[i64], placed: &Buffer) -> Result<()> {
        let count = keys.len().min(self.keys);
        let counted = usize::from(self.is_second);
        self.query(placed, 0..count, 0)?;
        let device = self.ops.device();
        let mut both = [0; 2 * size_of::<i32>()];
        device.read(self.missed.view(DType::I32, [2]), &mut both)?;
        let missed = i32::from_ne_bytes(both.as_chunks().0[counted]);
        ensure!(missed == 0, "{missed} of {count} keys were missed that were put in");
        let checked = count.min(CHECKED_ROWS);
        let mut bytes = vec![0; checked * self.dim * size_of::<f32>()];
        device.read(self.rows.view(DType::F32, [checked, self.dim]), &mut bytes)?;
        let rows: Vec<f32> =
            bytes.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect();
        let of_rows: Vec<i64> = keys[..checked].iter().map(|key| key % self.keys as i64).collect();
        check_rows(&of_rows, &rows)
    }

    fn refused(&self) -> Result<i32> {
        let mut bytes = [0; size_of::<i32>()];
        self.ops.device().read(self.refused.view(DType::I32, [1]), &mut bytes)?;
        Ok(i32::from_ne_bytes(bytes))
    }
}

/// i64 `[keys]` in device memory.
pub fn place_keys(device: &Arc<CudaDevice>, keys: &[i64]) -> Result<Buffer> {
    place(device, keys, "keys")
}

fn place<T: Element>(device: &Arc<CudaDevice>, items: &[T], what: &'static str) -> Result<Buffer> {
    let bytes = View::of(items, [1, items.len()]).row_bytes(0);
    let mut placed = Device::Cuda(Arc::clone(device)).take(bytes.len(), what)?;
    device.write(&placed.view_mut(DType::U8, [bytes.len()]), bytes)?;
    Ok(placed)
}

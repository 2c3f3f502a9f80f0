//! Hot caches on a GPU: queries and writes of keys that are on the device, beside the time in which
//! their bytes could be copied.
//!
//! Keys of a call are all different and lie in random sets. Calls that follow each other have other
//! keys, so that no row is still in the GPU's own caches.

use std::sync::Arc;

use anyhow::{Context, Result};
use terrace_device::DType;
use terrace_device::cuda::{CudaDevice, CudaInfo};
use terrace_kernels::{CacheWrite, GatherOps, HotCacheShape};

use super::gpu_cache::{GpuCache, place_keys};
use super::gpu_rates::{bus_rate, copy_rate, launch_times};
use super::key_draw::scattered;
use super::ps_options::PsArgs;
use super::report::{GpuReport, GpuRow};
use crate::commands::bench::attention::Timing;
use crate::commands::selftest::tested_device::{Attending, PAGES, TestedDevice};

/// Large calls of a run.
const CALLS: usize = 8;
/// Sets of keys that large queries take in turn.
const KEY_SETS: usize = 4;
/// Of a set of the cache, which is read whole; and the two sectors of it that a new key changes.
const SET_BYTES: usize = 128;
const CHANGED_BYTES: usize = 64;

pub fn measure(args: &PsArgs, gpu: &CudaInfo) -> Result<GpuReport> {
    let device = CudaDevice::open(gpu)?;
    let copies = {
        let ops = TestedDevice::cuda_ops(&device, 1, DType::Bf16, [PAGES], Attending::Free)?;
        copy_rate(&ops, &device, args.repeat)?
    };
    let bus = bus_rate(&device, args.repeat)?;
    let run = GpuRun { args, ops: GatherOps::new(&device)?, copies, bus };
    let mut measurements = run.resident()?;
    measurements.push(run.evicting()?);
    measurements.push(run.with_host_rows()?);
    Ok(GpuReport {
        device: format!("cuda:{} {}", gpu.ordinal, gpu.name),
        rows: args.gpu_rows,
        dim: args.dim,
        copy_gb_per_second: copies,
        bus_gb_per_second: bus,
        measurements,
    })
}

struct GpuRun<'a> {
    args: &'a PsArgs,
    ops: GatherOps,
    /// GB/s of copies, and of the bus.
    copies: f64,
    bus: f64,
}

impl GpuRun<'_> {
    /// All rows in device memory: large queries, and small ones back to back.
    fn resident(&self) -> Result<Vec<GpuRow>> {
        let PsArgs { dim, gpu_rows, gpu_keys, gpu_batch, repeat, .. } = *self.args;
        let shape = HotCacheShape::resident(gpu_rows, dim, usize::MAX).context("--gpu-rows")?;
        let mut cache = GpuCache::new(&self.ops, shape, gpu_keys)?;
        cache.fill(gpu_rows, CacheWrite::Resident)?;
        let keys = self.query_keys();
        let placed = place_keys(self.device(), &keys)?;
        cache.check(&keys, &placed)?;
        let large = launch_times(self.device(), repeat, CALLS, |call| {
            let start = call % KEY_SETS * gpu_keys;
            cache.query(&placed, start..start + gpu_keys, 0)
        })?;
        let batches = gpu_keys / gpu_batch;
        let mut small_query = |call: usize| {
            let start = call % batches * gpu_batch;
            cache.query(&placed, start..start + gpu_batch, start)
        };
        let streamed = launch_times(self.device(), repeat, batches, &mut small_query)?;
        let mut failed = None;
        let graph = self.device().capture(|| {
            failed = (0..batches).try_for_each(&mut small_query).err();
        })?;
        failed.map_or(Ok(()), Err)?;
        let mut launched = launch_times(self.device(), repeat, 1, |_| {
            graph.launch();
            Ok(())
        })?;
        launched.best_ms /= batches as f64;
        launched.median_ms /= batches as f64;
        let key_bytes = self.query_bytes();
        let row =
            |what: &str, keys, timing| self.row(what.to_owned(), keys, timing, key_bytes, 0.0);
        Ok(vec![
            row("query", gpu_keys, large),
            row("small queries, stream", gpu_batch, streamed),
            row("small queries, graph", gpu_batch, launched),
        ])
    }

    /// A full cache: each new key takes the slot of an older one.
    fn evicting(&self) -> Result<GpuRow> {
        let PsArgs { dim, gpu_rows, gpu_keys, repeat, .. } = *self.args;
        let shape = HotCacheShape::evicting(gpu_rows, dim).context("--gpu-rows")?;
        let mut cache = GpuCache::new(&self.ops, shape, gpu_keys)?;
        // Twice as many as there are slots, so that nearly all sets are full.
        cache.fill(2 * shape.slots(), CacheWrite::Evict)?;
        let written = 2 * shape.slots();
        let new = (repeat + 1) * CALLS * gpu_keys;
        let keys: Vec<i64> =
            (0..new).map(|number| written as i64 + scattered(number, new)).collect();
        let placed = place_keys(self.device(), &keys)?;
        // Queries move the clock: what is inserted now is younger than what was there.
        cache.query(&placed, 0..1, 0)?;
        let timing = launch_times(self.device(), repeat, CALLS, |call| {
            cache.write(&placed, call * gpu_keys..(call + 1) * gpu_keys, CacheWrite::Evict)
        })?;
        let key_bytes = self.query_bytes() + CHANGED_BYTES as f64;
        Ok(self.row("insert with eviction".to_owned(), gpu_keys, timing, key_bytes, 0.0))
    }

    /// Half of the slots have their rows in host memory.
    fn with_host_rows(&self) -> Result<GpuRow> {
        let PsArgs { dim, gpu_rows, gpu_keys, repeat, .. } = *self.args;
        let none = HotCacheShape::resident(gpu_rows, dim, 0).context("--gpu-rows")?;
        let half = none.host_row_bytes() / 2;
        let shape = HotCacheShape::resident(gpu_rows, dim, half).context("--gpu-rows")?;
        let mut cache = GpuCache::new(&self.ops, shape, gpu_keys)?;
        cache.fill(gpu_rows, CacheWrite::Resident)?;
        let keys = self.query_keys();
        let placed = place_keys(self.device(), &keys)?;
        cache.check(&keys, &placed)?;
        let timing = launch_times(self.device(), repeat, CALLS, |call| {
            let start = call % KEY_SETS * gpu_keys;
            cache.query(&placed, start..start + gpu_keys, 0)
        })?;
        // The slots in device memory come first in each set, and are nearly all used.
        let row_bytes = shape.row_bytes() as f64;
        let device_rows = shape.device_row_bytes() as f64 / row_bytes;
        let host_share = (1.0 - device_rows / gpu_rows as f64).max(0.0);
        let what = format!("query, {:.0}% of rows on the host", 100.0 * host_share);
        let host_bytes = host_share * row_bytes;
        Ok(self.row(what, gpu_keys, timing, self.query_bytes() - host_bytes, host_bytes))
    }

    /// Bytes of device memory and of host memory that a key moves, at least.
    fn row(
        &self,
        what: String,
        keys: usize,
        timing: Timing,
        device_bytes: f64,
        host_bytes: f64,
    ) -> GpuRow {
        let us = |bytes: f64, gb_per_second: f64| keys as f64 * bytes / gb_per_second * 1e-3;
        let limit_us = us(device_bytes, self.copies).max(us(host_bytes, self.bus));
        let [us, median_us] = [timing.best_ms, timing.median_ms].map(|ms| 1e3 * ms);
        GpuRow { what, keys, us, median_us, limit_us }
    }

    /// A key, its set, and its row, read and written.
    fn query_bytes(&self) -> f64 {
        (size_of::<i64>() + SET_BYTES + 2 * self.args.dim * size_of::<f32>()) as f64
    }

    /// Of several queries.
    fn query_keys(&self) -> Vec<i64> {
        let PsArgs { gpu_rows, gpu_keys, .. } = *self.args;
        (0..KEY_SETS * gpu_keys).map(|number| scattered(number, gpu_rows)).collect()
    }

    fn device(&self) -> &Arc<CudaDevice> {
        self.ops.device()
    }
}

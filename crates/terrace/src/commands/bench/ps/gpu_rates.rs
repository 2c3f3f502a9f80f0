//! How fast a GPU copies and reads host memory, and how long launches take on it.

use std::sync::Arc;

use anyhow::{Context, Result};
use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, Device};
use terrace_kernels::Ops;

use crate::commands::bench::attention::Timing;

/// Of the copies, with a page that has one block of each multiprocessor or more.
const COPIED_PAGES: usize = 512;
const COPIED_PAGE_BYTES: usize = 2 << 20;
const BUS_BYTES: usize = 512 << 20;
const BUS_CALLS: usize = 4;

/// GB/s of bytes that are read and written by copies within the device's memory.
pub fn copy_rate(ops: &Ops, device: &Arc<CudaDevice>, repeat: usize) -> Result<f64> {
    let memory = Device::Cuda(Arc::clone(device));
    let half = COPIED_PAGES as i32 / 2;
    let pairs: Vec<u8> =
        (0..half).flat_map(|page| [page, page + half]).flat_map(i32::to_ne_bytes).collect();
    let mut placed = memory.take(pairs.len(), "pairs of pages")?;
    device.write(&placed.view_mut(DType::U8, [pairs.len()]), &pairs)?;
    let mut pages = memory.take(COPIED_PAGES * COPIED_PAGE_BYTES, "pages to copy")?;
    let timing = Timing::measure(ops, repeat, 1, || {
        let pages = pages.view_mut(DType::U8, [COPIED_PAGES, COPIED_PAGE_BYTES]);
        ops.copy_pages(pages, placed.view(DType::I32, [COPIED_PAGES / 2, 2]));
    });
    // Each byte of a half is read once, and written once to the other.
    let bytes = (COPIED_PAGES * COPIED_PAGE_BYTES) as f64;
    Ok(bytes / timing.context("copies of pages")?.best_ms * 1e-6)
}

/// GB/s of copies from pinned host memory.
pub fn bus_rate(device: &Arc<CudaDevice>, repeat: usize) -> Result<f64> {
    let from = device.pinned(BUS_BYTES)?;
    let mut to = Device::Cuda(Arc::clone(device)).take(BUS_BYTES, "bytes from host memory")?;
    let to = to.view_mut(DType::U8, [BUS_BYTES]);
    let timing = launch_times(device, repeat, BUS_CALLS, |_| {
        from.copy_to(0, &to);
        Ok(())
    })?;
    Ok(BUS_BYTES as f64 / timing.best_ms * 1e-6)
}

/// What one of so many launches takes that follow each other on the stream. `launch` gets a number
/// that is never the same.
pub fn launch_times(
    device: &Arc<CudaDevice>,
    repeat: usize,
    calls: usize,
    mut launch: impl FnMut(usize) -> Result<()>,
) -> Result<Timing> {
    let [start, end] = [device.event()?, device.event()?];
    let mut times = Vec::with_capacity(repeat);
    for run in 0..=repeat {
        start.record();
        (run * calls..(run + 1) * calls).try_for_each(&mut launch)?;
        end.record();
        end.wait()?;
        if run > 0 {
            times.push(f64::from(end.ms_since(&start)?) / calls as f64);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(Timing { best_ms: times[0], median_ms: times[times.len() / 2] })
}

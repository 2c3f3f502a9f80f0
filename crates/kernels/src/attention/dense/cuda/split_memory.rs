//! Device memory in which the splits of a row's keys meet, and how many there may be.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{Buffer, DType, Device};

use crate::error::Error;

/// One for all layers, whose launches follow each other.
pub(super) struct SplitMemory {
    deterministic: bool,
    multiprocessors: usize,
    /// Blocks of a launch for which there is room.
    splits: usize,
    /// f32: the sums of each split, and two numbers about them for each head.
    partials: Buffer,
    /// i32: zero between launches.
    arrivals: Buffer,
}

/// Query heads that one block computes.
pub(super) const BLOCK_HEADS: usize = 8;
/// Widest head of the kernels that split.
pub(super) const MAX_HEAD_DIM: usize = 128;
/// Blocks that are resident on one multiprocessor at most.
const RESIDENT_BLOCKS: usize = 8;
/// Blocks of a launch where results may not depend on the batch: enough for one row of a million
/// keys, or a hundred rows of ten thousand; 68 MB.
const FIXED_SPLITS: usize = 16 * 1024;

impl SplitMemory {
    pub(super) fn take(device: &Arc<CudaDevice>, deterministic: bool) -> Result<Self, Error> {
        let multiprocessors = device.multiprocessors();
        let resident = RESIDENT_BLOCKS * multiprocessors;
        let splits = if deterministic { FIXED_SPLITS.max(resident) } else { resident };
        let split_bytes = BLOCK_HEADS * (MAX_HEAD_DIM + 2) * size_of::<f32>();
        let on = Device::Cuda(Arc::clone(device));
        Ok(SplitMemory {
            deterministic,
            multiprocessors,
            splits,
            partials: on.take(splits * split_bytes, "sums of attention")?,
            arrivals: on.take(splits * size_of::<i32>(), "counters of attention")?,
        })
    }

    /// Whether keys are cut at fixed positions.
    pub(super) fn is_deterministic(&self) -> bool {
        self.deterministic
    }

    pub(super) fn splits(&self) -> usize {
        self.splits
    }

    /// Blocks that keep all multiprocessors busy, `fit` of them on each.
    pub(super) fn enough_blocks(&self, fit: usize) -> usize {
        (fit * self.multiprocessors).min(self.splits)
    }

    pub(super) fn partials_address(&self) -> u64 {
        self.partials.view(DType::F32, [1]).device_address()
    }

    pub(super) fn arrivals_address(&self) -> u64 {
        self.arrivals.view(DType::I32, [1]).device_address()
    }
}

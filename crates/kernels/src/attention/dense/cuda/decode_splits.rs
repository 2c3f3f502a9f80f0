//! How many splits the keys of a decode step's rows may have, and the memory they meet in.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;

use crate::attention::split_kv::{BLOCK_HEADS, SplitMemory};
use crate::error::Error;

pub(super) struct DecodeSplits {
    deterministic: bool,
    multiprocessors: usize,
    /// Blocks of a launch for which there is room.
    blocks: usize,
    pub(super) memory: SplitMemory,
}

/// Blocks that are resident on one multiprocessor at most.
const RESIDENT_BLOCKS: usize = 8;
/// Blocks of a launch where results may not depend on the batch: enough for one row of a million
/// keys, or a hundred rows of ten thousand; 70 MB.
const FIXED_BLOCKS: usize = 16 * 1024;

impl DecodeSplits {
    pub(super) fn take(device: &Arc<CudaDevice>, deterministic: bool) -> Result<Self, Error> {
        let multiprocessors = device.multiprocessors();
        let resident = RESIDENT_BLOCKS * multiprocessors;
        let blocks = if deterministic { FIXED_BLOCKS.max(resident) } else { resident };
        let memory = SplitMemory::take(device, blocks * BLOCK_HEADS)?;
        Ok(DecodeSplits { deterministic, multiprocessors, blocks, memory })
    }

    /// Whether keys are cut at fixed positions.
    pub(super) fn is_deterministic(&self) -> bool {
        self.deterministic
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Blocks that keep all multiprocessors busy, `fit` of them on each.
    pub(super) fn enough_blocks(&self, fit: usize) -> usize {
        (fit * self.multiprocessors).min(self.blocks)
    }
}

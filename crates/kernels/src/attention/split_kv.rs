//! What the launchers of `decode.cu` and `slot_decode.cu` share: the twin of `split_kv.cuh`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{Buffer, DType, Device};

use crate::error::Error;

/// Query heads that one block computes.
pub(crate) const BLOCK_HEADS: usize = 8;
pub(crate) const BLOCK_WARPS: usize = 4;
pub(crate) const BLOCK: u32 = 32 * BLOCK_WARPS as u32;
/// Keys of a tile.
pub(crate) const TILE: usize = 16;
/// Widest head of the kernels that split.
const MAX_HEAD_DIM: usize = 128;
/// Numbers that `Stats` has.
const STATS: usize = 4;

/// Blocks that work on the heads of one row.
pub(crate) fn head_blocks(heads: usize, kv_heads: usize) -> usize {
    kv_heads * (heads / kv_heads).div_ceil(BLOCK_HEADS)
}

/// Device memory in which the splits of a row's keys meet. One for all layers, whose launches
/// follow each other.
pub(crate) struct SplitMemory {
    /// Splits of heads for which there is room.
    head_splits: usize,
    /// f32: the sums of each split of a head, and four numbers about them.
    partials: Buffer,
    /// i32: zero between launches.
    arrivals: Buffer,
}

impl SplitMemory {
    pub(crate) fn take(device: &Arc<CudaDevice>, head_splits: usize) -> Result<Self, Error> {
        let on = Device::Cuda(Arc::clone(device));
        let split_bytes = (MAX_HEAD_DIM + STATS) * size_of::<f32>();
        Ok(SplitMemory {
            head_splits,
            partials: on.take(head_splits * split_bytes, "sums of attention")?,
            arrivals: on.take(head_splits * size_of::<i32>(), "counters of attention")?,
        })
    }

    pub(crate) fn head_splits(&self) -> usize {
        self.head_splits
    }

    pub(crate) fn partials_address(&self) -> u64 {
        self.partials.view(DType::F32, [1]).device_address()
    }

    pub(crate) fn arrivals_address(&self) -> u64 {
        self.arrivals.view(DType::I32, [1]).device_address()
    }
}

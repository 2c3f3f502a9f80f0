//! Device memory of `slot_decode.cu`: where splits of a row meet, and where weights wait for the
//! row's total.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{Buffer, DType, Device};

use crate::attention::slots::KEPT_WEIGHTS;
use crate::attention::split_kv::{SplitMemory, TILE};
use crate::error::Error;

/// One for all layers, whose launches follow each other. Steps that need more are launched in
/// several groups of rows.
pub(super) struct DecodeMemory {
    pub(super) splits: SplitMemory,
    /// f16, and f32 for each tile of 16 slots.
    kept: Buffer,
    peaks: Buffer,
}

/// Splits of heads: 34 MB. 64 rows of 32 heads have room in 32 splits each.
const HEAD_SPLITS: usize = 64 * 1024;
impl DecodeMemory {
    pub(super) fn take(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let on = Device::Cuda(Arc::clone(device));
        Ok(DecodeMemory {
            splits: SplitMemory::take(device, HEAD_SPLITS)?,
            kept: on.take(KEPT_WEIGHTS * DType::F16.bytes(), "weights of slots")?,
            peaks: on.take(KEPT_WEIGHTS / TILE * size_of::<f32>(), "units of weights")?,
        })
    }

    /// Rows of a launch whose heads have so many splits together.
    pub(super) fn rows(&self, row_splits: usize) -> usize {
        self.splits.head_splits() / row_splits
    }

    /// Numbers that a launch can keep.
    pub(super) fn kept(&self) -> usize {
        KEPT_WEIGHTS
    }

    pub(super) fn kept_address(&self) -> u64 {
        self.kept.view(DType::F16, [1]).device_address()
    }

    pub(super) fn peaks_address(&self) -> u64 {
        self.peaks.view(DType::F32, [1]).device_address()
    }
}

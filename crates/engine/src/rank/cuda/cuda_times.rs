//! Times of events on their way to the device.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{Buffer, DType, Device};
use terrace_kernels::{HostCopier, MappedBuffer};
use terrace_model::hstu::StepTimes;

use crate::error::Error;
use crate::rank::step_input::InputTimes;

pub(super) struct CudaTimes {
    /// Pinned: of rows, and of keys.
    staging: [MappedBuffer; 2],
    rows: Buffer,
    keys: Buffer,
    positions: usize,
}

impl CudaTimes {
    /// For steps of so many tokens and sequences, with so many positions each.
    pub fn new(
        copier: &HostCopier,
        device: &Arc<CudaDevice>,
        [tokens, seqs, positions]: [usize; 3],
    ) -> Result<Self, Error> {
        let bytes = [tokens, seqs * positions].map(|count| DType::I64.bytes() * count);
        let staging = |bytes| MappedBuffer::new(copier, device, bytes);
        let on = Device::Cuda(Arc::clone(device));
        Ok(CudaTimes {
            staging: [staging(bytes[0])?, staging(bytes[1])?],
            rows: on.take(bytes[0], "times of rows")?,
            keys: on.take(bytes[1], "times of keys")?,
            positions,
        })
    }

    pub fn write(&mut self, input: &InputTimes) {
        for (staging, times) in self.staging.iter_mut().zip([&input.rows, &input.keys]) {
            let mut place = staging.view_mut(DType::I64, [times.len()]);
            place.as_mut_slice::<i64>().copy_from_slice(times);
        }
    }

    /// Copies what was written, with whatever is behind it.
    pub fn bring(&mut self, tokens: usize, seqs: usize) {
        self.staging[0].copy_to(&self.rows.view_mut(DType::I64, [tokens]));
        self.staging[1].copy_to(&self.keys.view_mut(DType::I64, [seqs, self.positions]));
    }

    pub fn views(&self, tokens: usize, seqs: usize) -> StepTimes<'_> {
        StepTimes {
            rows: self.rows.view(DType::I64, [tokens]),
            keys: self.keys.view(DType::I64, [seqs, self.positions]),
        }
    }
}

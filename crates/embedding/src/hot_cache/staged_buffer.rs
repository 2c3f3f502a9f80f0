//! Device memory with pinned host memory of the same size beside it.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, PinnedBuffer};
use terrace_device::{Buffer, DType, Device, Shape, View, ViewMut};

use crate::error::Error;

pub(crate) struct StagedBuffer {
    device: Arc<CudaDevice>,
    host: PinnedBuffer,
    memory: Buffer,
}

impl StagedBuffer {
    pub(crate) fn new(
        device: &Arc<CudaDevice>,
        bytes: usize,
        what: &'static str,
    ) -> Result<Self, Error> {
        let memory = Device::Cuda(Arc::clone(device)).take(bytes, what)?;
        Ok(StagedBuffer { device: Arc::clone(device), host: device.pinned(bytes)?, memory })
    }

    /// Starts bringing keys to the device, in its stream. What was brought before must have come.
    pub(crate) fn bring_keys(&mut self, keys: &[i64]) {
        for (to, key) in self.host.bytes_mut().chunks_exact_mut(8).zip(keys) {
            to.copy_from_slice(&key.to_le_bytes());
        }
        self.bring(DType::I64, [keys.len()]);
    }

    /// As [`bring_keys`](Self::bring_keys)
    pub(crate) fn bring_indices(&mut self, indices: &[u32]) {
        for (to, index) in self.host.bytes_mut().chunks_exact_mut(4).zip(indices) {
            to.copy_from_slice(&index.to_le_bytes());
        }
        self.bring(DType::I32, [indices.len()]);
    }

    /// As [`bring_keys`](Self::bring_keys) · numbers: `[rows, dim]`
    pub(crate) fn bring_rows(&mut self, numbers: &[f32], dim: usize) {
        for (to, number) in self.host.bytes_mut().chunks_exact_mut(4).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        self.bring(DType::F32, [numbers.len() / dim, dim]);
    }

    fn bring(&mut self, dtype: DType, shape: impl Into<Shape>) {
        self.host.copy_to(0, &self.memory.view_mut(dtype, shape));
    }

    /// The first keys, after everything that was launched.
    pub(crate) fn fetch_keys(&mut self, count: usize) -> Result<Vec<i64>, Error> {
        let bytes = self.fetch(DType::I64, [count])?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
    }

    /// The first counters, after everything that was launched.
    pub(crate) fn fetch_counts(&mut self, count: usize) -> Result<Vec<u32>, Error> {
        let bytes = self.fetch(DType::I32, [count])?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }

    /// Rows into `to`, after everything that was launched · to: `[rows, dim]`
    pub(crate) fn fetch_rows(&mut self, to: &mut [f32]) -> Result<(), Error> {
        let bytes = self.fetch(DType::F32, [to.len()])?;
        for (to, bytes) in to.iter_mut().zip(bytes.as_chunks().0) {
            *to = f32::from_le_bytes(*bytes);
        }
        Ok(())
    }

    fn fetch(&mut self, dtype: DType, shape: impl Into<Shape>) -> Result<&[u8], Error> {
        let view = self.memory.view(dtype, shape);
        let bytes = view.dense_bytes();
        self.host.copy_from(0, view);
        self.device.synchronize()?;
        Ok(&self.host.bytes()[..bytes])
    }

    pub(crate) fn view(&self, dtype: DType, shape: impl Into<Shape>) -> View<'_> {
        self.memory.view(dtype, shape)
    }

    pub(crate) fn view_mut(&mut self, dtype: DType, shape: impl Into<Shape>) -> ViewMut<'_> {
        self.memory.view_mut(dtype, shape)
    }
}

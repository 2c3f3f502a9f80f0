//! Pinned host memory that a kernel of the compute stream copies from and to.
//!
//! For the small copies of a step. A GPU's copy engines take what they are asked for in order:
//! behind pages on their way, a step's arrays would wait for all of them.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, PinnedBuffer};
use terrace_device::{DType, Shape, View, ViewMut};

use super::cuda::{MovePagesKernels, PassedBytes};
use crate::error::Error;

pub struct MappedBuffer {
    memory: PinnedBuffer,
    /// The kernel's list, of one entry: where `memory` is.
    list: PinnedBuffer,
    list_address: u64,
    copier: HostCopier,
}

/// The kernels of all mapped buffers of a device.
#[derive(Clone)]
pub struct HostCopier {
    kernels: Arc<MovePagesKernels>,
}

impl HostCopier {
    pub fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        Ok(HostCopier { kernels: Arc::new(MovePagesKernels::load(device)?) })
    }
}

impl MappedBuffer {
    /// Before the device's arena is reserved.
    pub fn new(copier: &HostCopier, device: &Arc<CudaDevice>, bytes: usize) -> Result<Self, Error> {
        let memory = device.pinned(bytes)?;
        let mut list = device.pinned(MovePagesKernels::ENTRY_BYTES)?;
        MovePagesKernels::write_entry(list.bytes_mut(), memory.device_address()?, 0);
        let list_address = list.device_address()?;
        Ok(MappedBuffer { memory, list, list_address, copier: copier.clone() })
    }

    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }

    /// The first elements as a tensor.
    pub fn view(&self, dtype: DType, shape: impl Into<Shape>) -> View<'_> {
        self.memory.view(dtype, shape)
    }

    /// As [`view`](Self::view), to be written.
    pub fn view_mut(&mut self, dtype: DType, shape: impl Into<Shape>) -> ViewMut<'_> {
        self.memory.view_mut(dtype, shape)
    }

    /// Starts copying the first bytes to the device, as many as `to` holds (dense).
    ///
    /// They must stay as they are until an event recorded afterwards has come.
    pub fn copy_to(&self, to: &ViewMut<'_>) {
        let passed = self.passed(0, to.as_view());
        // SAFETY: both sides have the bytes, and the list is ours; the rest is asked of the caller.
        unsafe { self.copier.kernels.to_device(&passed) };
    }

    /// Starts copying from the device (dense); the bytes are there when an event recorded
    /// afterwards has come.
    pub fn copy_from(&mut self, offset: usize, from: View<'_>) {
        let passed = self.passed(offset, from);
        // SAFETY: as in `copy_to`; nobody reads them before that event, as the caller sees to.
        unsafe { self.copier.kernels.to_host(&passed) };
    }

    fn passed(&self, offset: usize, view: View<'_>) -> PassedBytes {
        let (bytes, room) = (view.dense_bytes(), self.memory.bytes().len());
        assert!(offset + bytes <= room, "{offset}+{bytes} of {room} bytes");
        debug_assert_eq!(self.list.bytes().len(), MovePagesKernels::ENTRY_BYTES);
        PassedBytes { list: self.list_address, device: view.device_address(), offset, bytes }
    }
}

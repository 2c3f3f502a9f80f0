//! The device that computes: the CPU, or one GPU.

use std::sync::Arc;

use crate::buffer::Buffer;
use crate::cuda::CudaDevice;
use crate::error::Error;

#[derive(Clone)]
pub enum Device {
    Cpu,
    Cuda(Arc<CudaDevice>),
}

impl Device {
    /// Memory that nobody has taken, of a device that has its own; `None` where it cannot be asked.
    pub fn free_bytes(&self) -> Option<usize> {
        match self {
            Device::Cpu => None,
            Device::Cuda(device) => device.memory_bytes().ok().map(|(free, _)| free),
        }
    }

    /// Takes zeroed memory where the device computes; `what` names it in the error when there is
    /// not enough.
    pub fn take(&self, bytes: usize, what: &'static str) -> Result<Buffer, Error> {
        match self {
            Device::Cpu => Buffer::zeroed(bytes, what),
            Device::Cuda(device) => Ok(Buffer::on_cuda(device.allocate(bytes, what)?)),
        }
    }
}

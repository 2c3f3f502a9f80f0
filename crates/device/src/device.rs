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
    /// Takes zeroed memory where the device computes; `what` names it in the error when there is
    /// not enough.
    pub fn take(&self, bytes: usize, what: &'static str) -> Result<Buffer, Error> {
        match self {
            Device::Cpu => Buffer::zeroed(bytes, what),
            Device::Cuda(device) => Ok(Buffer::on_cuda(device.allocate(bytes, what)?)),
        }
    }
}

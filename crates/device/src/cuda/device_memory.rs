//! Memory of a GPU, taken at start and given back when dropped.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};

use super::call::check;
use super::cuda_device::CudaDevice;
use crate::error::Error;

pub(crate) struct DeviceMemory {
    device: Arc<CudaDevice>,
    address: u64,
    bytes: usize,
}

impl CudaDevice {
    /// Takes zeroed memory, aligned to 256 bytes.
    pub(crate) fn allocate(
        self: &Arc<Self>,
        bytes: usize,
        what: &'static str,
    ) -> Result<DeviceMemory, Error> {
        self.bind();
        let mut address = 0;
        if bytes > 0 {
            // SAFETY: the call writes one address.
            let code = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes) };
            if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
                let (free, total) = self.memory_bytes()?;
                return Err(Error::OutOfDeviceMemory { bytes, what, free, total });
            }
            check(code, || format!("taking {bytes} bytes of device memory ({what})"))?;
            // SAFETY: just allocated with this length.
            let code = unsafe { sys::cuMemsetD8Async(address, 0, bytes, self.stream()) };
            check(code, || format!("clearing {bytes} bytes of device memory ({what})"))?;
        }
        Ok(DeviceMemory { device: Arc::clone(self), address, bytes })
    }
}

impl DeviceMemory {
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.device.bind();
            // SAFETY: allocated in `CudaDevice::allocate`; freeing waits for kernels that use it.
            unsafe { sys::cuMemFree_v2(self.address) };
        }
    }
}

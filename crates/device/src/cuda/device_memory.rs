//! Memory of a GPU: taken within the engine's budget, given back when dropped.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};

use super::call::check;
use super::cuda_device::CudaDevice;
use super::device_budget::Source;
use crate::error::Error;

pub(crate) struct DeviceMemory {
    device: Arc<CudaDevice>,
    address: u64,
    bytes: usize,
    source: Source,
}

impl CudaDevice {
    /// Takes zeroed memory, aligned to 256 bytes.
    pub(crate) fn allocate(
        self: &Arc<Self>,
        bytes: usize,
        what: &'static str,
    ) -> Result<DeviceMemory, Error> {
        let source = if bytes == 0 { Source::Driver } else { self.budget().take(bytes, what)? };
        let address = match source {
            Source::Driver => self.ask_driver(bytes, what),
            Source::Arena(address) => Ok(address),
        };
        let address = address.inspect_err(|_| self.budget().give_back(source, bytes))?;
        let memory = DeviceMemory { device: Arc::clone(self), address, bytes, source };
        if bytes > 0 {
            self.bind();
            // SAFETY: the range is this memory's own.
            let code = unsafe { sys::cuMemsetD8Async(address, 0, bytes, self.stream()) };
            check(code, || format!("clearing {bytes} bytes of device memory ({what})"))?;
        }
        Ok(memory)
    }

    /// Ends the start: takes a block of so many bytes, out of which everything that is loaded
    /// from now on comes. Pinned memory is refused from now on.
    pub fn reserve_arena(self: &Arc<Self>, bytes: usize) -> Result<(), Error> {
        let what = "the arena for what is loaded later";
        self.budget().take(bytes, what)?;
        let address = self.ask_driver(bytes, what)?;
        self.budget().reserve(address, bytes);
        Ok(())
    }

    fn ask_driver(&self, bytes: usize, what: &'static str) -> Result<u64, Error> {
        let mut address = 0;
        if bytes > 0 {
            self.bind();
            // SAFETY: the call writes one address.
            let code = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes) };
            if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
                let (free, total) = self.memory_bytes()?;
                return Err(Error::OutOfDeviceMemory { bytes, what, free, total });
            }
            check(code, || format!("taking {bytes} bytes of device memory ({what})"))?;
        }
        Ok(address)
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
        if self.bytes == 0 {
            return;
        }
        self.device.bind();
        match self.source {
            // SAFETY: allocated by `ask_driver`; freeing waits for kernels that use it.
            Source::Driver => unsafe { sys::cuMemFree_v2(self.address).result().ok() },
            // SAFETY: the stream lives as long as the device. Kernels that use the memory end
            // before others may have it.
            Source::Arena(_) => unsafe {
                sys::cuStreamSynchronize(self.device.stream()).result().ok()
            },
        };
        self.device.budget().give_back(self.source, self.bytes);
    }
}

//! A run of host memory that a GPU reaches by itself; plain memory where there is none.
//!
//! Taken as an anonymous mapping with large pages, touched, and then registered. On an H200's host
//! eight threads that do so take 16 to 27 GB/s, where the driver's own allocation gives 2 to 2.7
//! GB/s however many threads ask, and registering memory that nobody touched 6 GB/s.

use std::sync::Arc;

use cudarc::driver::sys::{self, CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE};

use super::call::check;
use super::cuda_device::CudaDevice;
use crate::buffer::Allocation;
use crate::device::Device;
use crate::error::Error;

pub(super) struct PinnedSegment {
    memory: Allocation,
    registration: Option<Registration>,
}

struct Registration {
    device: Arc<CudaDevice>,
    /// Where the GPU sees the first byte.
    address: u64,
}

/// The smallest page of the systems we run on. A write to each brings the memory in.
const SYSTEM_PAGE_BYTES: usize = 4096;

impl PinnedSegment {
    /// Takes zeroed memory; with a GPU, all of it is there when this returns.
    pub(super) fn take(device: &Device, bytes: usize) -> Result<Self, Error> {
        let what = "pages in host memory";
        let whole = bytes.checked_next_multiple_of(SYSTEM_PAGE_BYTES);
        let whole = whole.filter(|&whole| isize::try_from(whole).is_ok());
        let mut memory =
            Allocation::zeroed(whole.ok_or(Error::OutOfMemory { bytes, what })?, what)?;
        let Device::Cuda(device) = device else {
            return Ok(PinnedSegment { memory, registration: None });
        };
        memory.bytes_mut().iter_mut().step_by(SYSTEM_PAGE_BYTES).for_each(|byte| *byte = 0);
        let registration = Registration::new(device, &memory)?;
        Ok(PinnedSegment { memory, registration: Some(registration) })
    }

    pub(super) fn data(&self) -> *mut u8 {
        self.memory.data()
    }

    /// `None` for plain memory.
    pub(super) fn device_address(&self) -> Option<u64> {
        self.registration.as_ref().map(|registration| registration.address)
    }
}

impl Registration {
    fn new(device: &Arc<CudaDevice>, memory: &Allocation) -> Result<Self, Error> {
        device.bind();
        let (data, bytes, mut address) = (memory.data().cast(), memory.len(), 0);
        let flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: the mapping is `bytes` long and outlives its registration.
        let code = unsafe { sys::cuMemHostRegister_v2(data, bytes, flags) };
        check(code, || format!("pinning {bytes} bytes of host memory"))?;
        // SAFETY: just registered; the call writes one address.
        let code = unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut address, data, 0) };
        let found = check(code, || format!("mapping {bytes} bytes of host memory to the GPU"));
        if found.is_err() {
            // SAFETY: registered above, and nobody uses it.
            unsafe { sys::cuMemHostUnregister(data) };
        }
        found.map(|()| Registration { device: Arc::clone(device), address })
    }
}

impl Drop for PinnedSegment {
    fn drop(&mut self) {
        if let Some(registration) = &self.registration {
            registration.device.bind();
            // SAFETY: registered in `take`; who copies to or from a page holds the whole.
            unsafe { sys::cuMemHostUnregister(self.memory.data().cast()) };
        }
    }
}

//! Compiled kernels and how they are launched.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUfunction, CUfunction_attribute, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchConfig,
    CUmodule, CUresult, CUstream,
};

use super::call::{check, message_of};
use super::copy_stream::CopyStream;
use super::cuda_device::CudaDevice;
use crate::error::Error;

/// The kernels of one PTX text, compiled by the driver; kept as long as a kernel of it.
#[derive(Clone)]
pub struct CudaModule {
    loaded: Arc<Loaded>,
}

struct Loaded {
    device: Arc<CudaDevice>,
    module: CUmodule,
    name: String,
    /// Whether its kernels wait for what the kernel before them writes.
    waits: bool,
}

// SAFETY: a handle that any thread may use once the context is bound.
unsafe impl Send for Loaded {}
// SAFETY: as above; the driver locks its own state.
unsafe impl Sync for Loaded {}

#[derive(Clone)]
pub struct CudaKernel {
    module: Arc<Loaded>,
    function: CUfunction,
    name: String,
}

// SAFETY: as for the module.
unsafe impl Send for CudaKernel {}
// SAFETY: as for the module.
unsafe impl Sync for CudaKernel {}

/// The extent of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: u32,
    pub shared_bytes: u32,
}

/// What a kernel does before it reads what the kernel before it writes, on Hopper and newer.
const WAIT: &str = "griddepcontrol.wait";

impl CudaDevice {
    /// Compiles PTX for this GPU.
    pub fn module(self: &Arc<Self>, name: &str, ptx: &str) -> Result<CudaModule, Error> {
        let text = CString::new(ptx).expect("PTX has no zero byte");
        self.bind();
        let mut module = std::ptr::null_mut();
        // SAFETY: the text ends with a zero byte and outlives the call.
        let code = unsafe { sys::cuModuleLoadData(&raw mut module, text.as_ptr().cast()) };
        check(code, || format!("compiling the kernels of {name} for this GPU"))?;
        let waits = ptx.contains(WAIT);
        let loaded = Loaded { device: Arc::clone(self), module, name: name.to_owned(), waits };
        Ok(CudaModule { loaded: Arc::new(loaded) })
    }
}

impl CudaModule {
    pub fn kernel(&self, name: &str) -> Result<CudaKernel, Error> {
        let text = CString::new(name).expect("a kernel's name has no zero byte");
        self.loaded.device.bind();
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name ends with a zero byte.
        let code = unsafe {
            sys::cuModuleGetFunction(&raw mut function, self.loaded.module, text.as_ptr())
        };
        check(code, || format!("finding kernel {name} in {}", self.loaded.name))?;
        Ok(CudaKernel { module: Arc::clone(&self.loaded), function, name: name.to_owned() })
    }
}

impl CudaKernel {
    pub fn device(&self) -> &Arc<CudaDevice> {
        &self.module.device
    }

    /// Lets a launch have this much dynamic shared memory; without it, 48 KiB is the limit. What
    /// shared memory and first-level cache divide then goes to shared memory as far as it can.
    pub fn allow_shared(&self, bytes: u32) -> Result<(), Error> {
        use CUfunction_attribute as Attribute;
        self.device().bind();
        let settings = [
            (Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes as i32),
            (Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100),
        ];
        for (attribute, value) in settings {
            // SAFETY: the function is loaded.
            let code = unsafe { sys::cuFuncSetAttribute(self.function, attribute, value) };
            check(code, || format!("giving {} {bytes} bytes of shared memory", self.name))?;
        }
        Ok(())
    }

    /// Blocks of this size that fit on one multiprocessor at once.
    pub fn blocks_per_multiprocessor(&self, block: u32, shared_bytes: u32) -> Result<usize, Error> {
        self.device().bind();
        let mut blocks = 0;
        // SAFETY: the function is loaded; the call writes one number.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                self.function,
                block as i32,
                shared_bytes as usize,
            )
        };
        check(code, || format!("asking how many blocks of {} fit", self.name))?;
        Ok(blocks as usize)
    }

    /// Launches on the device's compute stream. The blocks of a kernel that waits itself for what
    /// it reads may start before the kernel before them has ended; others start after it.
    ///
    /// A grid without blocks launches nothing. A failure is kept by the device.
    ///
    /// # Safety
    /// `params` is the struct that the kernel was written for, and its addresses are device memory
    /// that is large enough, lives until the launch has run, and is not written by others.
    pub unsafe fn launch<P: Copy>(&self, launch: Launch, params: &P) {
        let overlaps = self.module.waits;
        // SAFETY: the caller's contract.
        unsafe { self.launch_in(self.device().stream(), overlaps, launch, params) };
    }

    /// As [`launch`](Self::launch), on the side stream, behind what was started there.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch); addresses may be of pinned host memory too.
    pub unsafe fn launch_beside<P: Copy>(&self, stream: &CopyStream, launch: Launch, params: &P) {
        // SAFETY: the caller's contract.
        unsafe { self.launch_in(stream.raw(), false, launch, params) };
    }

    /// # Safety
    /// As for [`launch`](Self::launch); the stream is one of this device.
    unsafe fn launch_in<P: Copy>(
        &self,
        stream: CUstream,
        overlaps: bool,
        launch: Launch,
        params: &P,
    ) {
        let device = self.device();
        let Launch { grid, block, shared_bytes } = launch;
        if grid.contains(&0) {
            return;
        }
        // SAFETY: an all-zero attribute and configuration are valid.
        let (mut overlap, mut config): (CUlaunchAttribute, CUlaunchConfig) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        overlap.id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        overlap.value.programmaticStreamSerializationAllowed = 1;
        [config.gridDimX, config.gridDimY, config.gridDimZ] = grid;
        [config.blockDimX, config.blockDimY, config.blockDimZ] = [block, 1, 1];
        config.sharedMemBytes = shared_bytes;
        config.hStream = stream;
        config.attrs = &raw mut overlap;
        config.numAttrs = u32::from(overlaps);
        let mut arguments = [std::ptr::from_ref(params).cast_mut().cast::<c_void>()];
        device.bind();
        // SAFETY: the kernel takes one struct, which the caller vouches for; the driver copies it.
        let code = unsafe {
            sys::cuLaunchKernelEx(
                &raw const config,
                self.function,
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        if code != CUresult::CUDA_SUCCESS {
            let what = format!("launching {} with {launch:?}", self.name);
            device.fail(Error::Cuda { what, message: message_of(code) });
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.device.drain();
        // SAFETY: loaded in `CudaDevice::module`; no kernel of it is left, and none is running.
        unsafe { sys::cuModuleUnload(self.module) };
    }
}

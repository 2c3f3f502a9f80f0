//! One GPU: its context, its compute stream and what went wrong on it.
//!
//! What a GPU makes (memory, modules, events, graphs) stands with the method that makes it, in the
//! file of its type.

use std::ffi::c_uint;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{self, CUcontext, CUstream, CUstream_flags};

use super::call::check;
use super::copy_pieces;
use super::device_budget::DeviceBudget;
use super::probe::CudaInfo;
use crate::error::Error;
use crate::view::{View, ViewMut};

pub struct CudaDevice {
    info: CudaInfo,
    context: CUcontext,
    stream: CUstream,
    /// The first failure of a launch since it was last asked for.
    failure: Mutex<Option<Error>>,
    budget: Mutex<DeviceBudget>,
}

// SAFETY: the driver's handles may be used from any thread that has bound the context, which every
// method does first.
unsafe impl Send for CudaDevice {}
// SAFETY: as above; the driver locks its own state.
unsafe impl Sync for CudaDevice {}

impl CudaDevice {
    /// Opens a GPU that [`probe`](super::probe) has found, to take memory as far as there is any.
    pub fn open(info: &CudaInfo) -> Result<Arc<Self>, Error> {
        Self::open_share(info, usize::MAX)
    }

    /// As `open`, to take at most so many bytes of its memory.
    pub fn open_share(info: &CudaInfo, bytes: usize) -> Result<Arc<Self>, Error> {
        let ordinal = info.ordinal;
        let (mut device, mut context, mut stream) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        let open = || format!("opening cuda:{ordinal}");
        // SAFETY: `probe` has initialised the driver and seen this ordinal; the primary context is
        // released when the device is dropped.
        unsafe {
            check(sys::cuDeviceGet(&raw mut device, ordinal as i32), open)?;
            check(sys::cuDevicePrimaryCtxRetain(&raw mut context, device), open)?;
            check(sys::cuCtxSetCurrent(context), open)?;
            let (mut least, mut greatest) = (0, 0);
            check(sys::cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest), open)?;
            let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
            // Before kernels that run beside it, whose streams have the least.
            check(sys::cuStreamCreateWithPriority(&raw mut stream, flags, greatest), open)?;
        }
        Ok(Arc::new(CudaDevice {
            info: info.clone(),
            context,
            stream,
            failure: Mutex::new(None),
            budget: Mutex::new(DeviceBudget::new(bytes)),
        }))
    }

    pub fn info(&self) -> &CudaInfo {
        &self.info
    }

    pub fn multiprocessors(&self) -> usize {
        self.info.multiprocessors
    }

    pub fn compute_capability(&self) -> (u32, u32) {
        self.info.compute_capability
    }

    /// Whether the driver starts many small copies with one call, as those since CUDA 12.8 do.
    pub fn has_batched_copies(&self) -> bool {
        copy_pieces::has_batches()
    }

    /// Bytes that nobody has taken, and all bytes.
    pub fn memory_bytes(&self) -> Result<(usize, usize), Error> {
        self.bind();
        let (mut free, mut total) = (0, 0);
        // SAFETY: the call writes two numbers.
        let code = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        check(code, || "asking for free device memory".into())?;
        Ok((free, total))
    }

    /// Bytes that were taken of the share this was opened with.
    pub fn taken_bytes(&self) -> usize {
        self.budget().taken()
    }

    /// Bytes that can still be taken: what the share leaves, as far as nobody else has it.
    pub fn left_bytes(&self) -> Result<usize, Error> {
        let (free, _) = self.memory_bytes()?;
        Ok(self.budget().left().min(free))
    }

    pub(super) fn budget(&self) -> MutexGuard<'_, DeviceBudget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes host bytes into device memory and waits until they are there.
    ///
    /// Panics unless the view is dense and as long as `bytes`.
    pub fn write(&self, to: &ViewMut<'_>, bytes: &[u8]) -> Result<(), Error> {
        self.bind();
        assert_eq!(to.as_view().dense_bytes(), bytes.len(), "bytes written to the device");
        let address = to.as_view().device_address();
        // In the stream, so that kernels launched later find them: a copy outside of it may still
        // be under way when it returns.
        // SAFETY: the view covers that many bytes of device memory; the copy is waited for.
        unsafe {
            let from = bytes.as_ptr().cast();
            check(sys::cuMemcpyHtoDAsync_v2(address, from, bytes.len(), self.stream), || {
                format!("copying {} bytes to the device", bytes.len())
            })?;
            check(sys::cuStreamSynchronize(self.stream), || "waiting for a copy".into())
        }
    }

    /// Makes all of it zeros, in the order of what is launched.
    ///
    /// Panics unless the view is dense.
    pub fn clear(&self, to: &ViewMut<'_>) {
        let bytes = to.as_view().dense_bytes();
        if bytes == 0 {
            return;
        }
        self.bind();
        // SAFETY: the view covers that many bytes of device memory.
        let code = unsafe { sys::cuMemsetD8Async(to.device_address(), 0, bytes, self.stream) };
        self.keep(check(code, || format!("clearing {bytes} bytes of device memory")));
    }

    /// Reads device memory after everything launched so far.
    pub fn read(&self, from: View<'_>, bytes: &mut [u8]) -> Result<(), Error> {
        self.synchronize()?;
        assert_eq!(from.dense_bytes(), bytes.len(), "bytes read from the device");
        let address = from.device_address();
        // SAFETY: the view covers that many bytes, and nothing runs.
        let code = unsafe { sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), address, bytes.len()) };
        check(code, || format!("copying {} bytes from the device", bytes.len()))
    }

    /// Waits for everything launched so far; the first failure since the last call, if any.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.bind();
        // SAFETY: the stream lives as long as `self`.
        let code = unsafe { sys::cuStreamSynchronize(self.stream) };
        let outcome = check(code, || "running kernels".into());
        self.take_failure()?;
        outcome
    }

    /// Lets the calling thread talk to this GPU.
    pub(super) fn bind(&self) {
        // SAFETY: the context lives as long as `self`. A failure shows at the next call.
        unsafe { sys::cuCtxSetCurrent(self.context) };
    }

    pub(super) fn stream(&self) -> CUstream {
        self.stream
    }

    /// The compute stream's address, for libraries that launch their own kernels on it.
    pub fn raw_stream(&self) -> *mut std::ffi::c_void {
        self.bind();
        self.stream.cast()
    }

    /// Keeps the first failure of a launch for whoever waits next.
    pub fn fail(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// As [`fail`](Self::fail), if it is one.
    pub(super) fn keep(&self, outcome: Result<(), Error>) {
        if let Err(error) = outcome {
            self.fail(error);
        }
    }

    /// Waits until nothing launched so far is under way, whatever came of it: before what it uses
    /// is given back.
    pub(super) fn drain(&self) {
        self.bind();
        // SAFETY: the stream lives as long as `self`.
        unsafe { sys::cuStreamSynchronize(self.stream) };
    }

    pub(super) fn take_failure(&self) -> Result<(), Error> {
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        self.drain();
        // SAFETY: nobody else holds the stream or memory of the arena; the context was retained in
        // `open_share`.
        unsafe {
            sys::cuStreamDestroy_v2(self.stream);
            if let Some(address) = self.budget().arena_address() {
                sys::cuMemFree_v2(address);
            }
            let mut device = 0;
            sys::cuDeviceGet(&raw mut device, self.info.ordinal as i32);
            sys::cuDevicePrimaryCtxRelease_v2(device);
        }
    }
}

//! A mark in a stream that the host can wait for.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUevent, CUevent_flags, CUresult};

use super::call::check;
use super::cuda_device::CudaDevice;
use crate::error::Error;

pub struct CudaEvent {
    device: Arc<CudaDevice>,
    event: CUevent,
}

// SAFETY: a handle that any thread may use once the context is bound.
unsafe impl Send for CudaEvent {}

impl CudaDevice {
    pub fn event(self: &Arc<Self>) -> Result<CudaEvent, Error> {
        self.bind();
        let mut event = std::ptr::null_mut();
        let flags = CUevent_flags::CU_EVENT_DEFAULT as u32;
        // SAFETY: the call writes one handle.
        check(unsafe { sys::cuEventCreate(&raw mut event, flags) }, || "making an event".into())?;
        Ok(CudaEvent { device: Arc::clone(self), event })
    }

    /// What is launched from now on begins when `event` has come.
    pub fn wait_for(&self, event: &CudaEvent) {
        self.bind();
        // SAFETY: both handles are alive.
        let code = unsafe { sys::cuStreamWaitEvent(self.stream(), event.event, 0) };
        self.keep(check(code, || "letting the compute stream wait for an event".into()));
    }
}

impl CudaEvent {
    /// Marks everything launched so far.
    pub fn record(&self) {
        self.device.bind();
        // SAFETY: both handles are alive.
        let code = unsafe { sys::cuEventRecord(self.event, self.device.stream()) };
        self.device.keep(check(code, || "recording an event".into()));
    }

    /// Waits until what was marked is done; the first failure since the last wait, if any.
    pub fn wait(&self) -> Result<(), Error> {
        self.device.bind();
        // SAFETY: the handle is alive.
        let code = unsafe { sys::cuEventSynchronize(self.event) };
        let outcome = check(code, || "running kernels".into());
        self.device.take_failure()?;
        outcome
    }

    /// Whether what was marked is done, without waiting for it.
    pub fn has_come(&self) -> Result<bool, Error> {
        self.device.bind();
        // SAFETY: the handle is alive.
        match unsafe { sys::cuEventQuery(self.event) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check(code, || "asking for an event".into()).map(|()| true),
        }
    }

    pub(super) fn raw(&self) -> CUevent {
        self.event
    }

    /// Milliseconds of device time from `earlier` to this mark; both must have come.
    pub fn ms_since(&self, earlier: &CudaEvent) -> Result<f32, Error> {
        let mut ms = 0.0;
        // SAFETY: both handles are alive; the call writes one number.
        let code = unsafe { sys::cuEventElapsedTime(&raw mut ms, earlier.event, self.event) };
        check(code, || "timing two events".into())?;
        Ok(ms)
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        self.device.bind();
        // SAFETY: made in `CudaDevice::event`, owned by `self`.
        unsafe { sys::cuEventDestroy_v2(self.event) };
    }
}

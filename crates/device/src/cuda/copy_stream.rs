//! A second stream, on which pinned memory is copied while kernels run.
//!
//! Its kernels give way to those of the compute stream: it has the least priority, which copies by
//! the copy engines do not know.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUstream, CUstream_flags};

use super::call::check;
use super::copy_pieces::{self, CopyPieces};
use super::cuda_device::CudaDevice;
use super::cuda_event::CudaEvent;
use super::pinned_buffer::PinnedBuffer;
use crate::error::Error;
use crate::view::{View, ViewMut};

pub struct CopyStream {
    device: Arc<CudaDevice>,
    stream: CUstream,
    /// Marks the end of the compute stream for this one to wait for.
    compute: CudaEvent,
    unused: Vec<CudaEvent>,
}

// SAFETY: a handle that any thread may use once the context is bound.
unsafe impl Send for CopyStream {}

impl CopyStream {
    pub fn new(device: Arc<CudaDevice>) -> Result<Self, Error> {
        device.bind();
        let mut stream = std::ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the call writes one handle.
        let code = unsafe { sys::cuStreamCreate(&raw mut stream, flags) };
        check(code, || "making a stream for copies".into())?;
        let compute = device.event()?;
        Ok(CopyStream { device, stream, compute, unused: Vec::new() })
    }

    /// Copies that are started from now on begin when all kernels launched so far are done.
    pub fn follow_compute(&self) -> Result<(), Error> {
        self.compute.record();
        // SAFETY: both handles are alive; the event was recorded.
        let code = unsafe { sys::cuStreamWaitEvent(self.stream, self.compute.raw(), 0) };
        check(code, || "waiting for the compute stream".into())
    }

    /// Starts copying from the device.
    pub fn copy_from(
        &self,
        to: &mut PinnedBuffer,
        offset: usize,
        from: View<'_>,
    ) -> Result<(), Error> {
        let (address, bytes) = (from.device_address(), from.dense_bytes());
        let to = to.span(offset, bytes);
        self.device.bind();
        // SAFETY: both sides hold that many bytes; the host side is pinned and borrowed mutably.
        // Whoever reads it waits for a mark that is made afterwards.
        let code = unsafe { sys::cuMemcpyDtoHAsync_v2(to, address, bytes, self.stream) };
        check(code, || format!("copying {bytes} bytes from the device"))
    }

    /// Starts copying to the device.
    pub fn copy_to(
        &self,
        from: &PinnedBuffer,
        offset: usize,
        to: &ViewMut<'_>,
    ) -> Result<(), Error> {
        let (address, bytes) = (to.as_view().device_address(), to.as_view().dense_bytes());
        let from = from.span(offset, bytes);
        self.device.bind();
        // SAFETY: both sides hold that many bytes; the host side is pinned.
        let code = unsafe { sys::cuMemcpyHtoDAsync_v2(address, from, bytes, self.stream) };
        check(code, || format!("copying {bytes} bytes to the device"))
    }

    /// Starts all these copies, in any order: with one call where the driver has
    /// [batches](CudaDevice::has_batched_copies), else one by one.
    ///
    /// # Safety
    /// Each address is device memory or pinned memory of so many bytes, all within one
    /// registration. Until a mark made afterwards has come, sources are not written, targets are
    /// neither read nor written, and both stay taken.
    pub unsafe fn copy_pieces(&self, pieces: &CopyPieces) -> Result<(), Error> {
        self.device.bind();
        if pieces.is_empty() {
            return Ok(());
        }
        if !copy_pieces::has_batches() {
            // SAFETY: the caller's contract.
            return unsafe { self.copy_each(pieces) };
        }
        // SAFETY: the caller's contract; the stream is alive.
        let code = unsafe { copy_pieces::start_batch(pieces, self.stream) };
        check(code, || format!("copying {} pieces", pieces.len()))
    }

    /// As [`copy_pieces`](Self::copy_pieces), a call for each.
    ///
    /// # Safety
    /// As for [`copy_pieces`](Self::copy_pieces).
    pub unsafe fn copy_each(&self, pieces: &CopyPieces) -> Result<(), Error> {
        self.device.bind();
        for (to, from, bytes) in pieces.iter() {
            // SAFETY: the caller's contract; the stream is alive.
            let code = unsafe { sys::cuMemcpyAsync(to, from, bytes, self.stream) };
            check(code, || format!("copying a piece of {bytes} bytes"))?;
        }
        Ok(())
    }

    pub(super) fn raw(&self) -> CUstream {
        self.stream
    }

    /// An event that comes when all copies started so far are done.
    pub fn mark(&mut self) -> Result<CudaEvent, Error> {
        let event = match self.unused.pop() {
            Some(event) => event,
            None => self.device.event()?,
        };
        // SAFETY: both handles are alive.
        let code = unsafe { sys::cuEventRecord(event.raw(), self.stream) };
        check(code, || "recording an event".into())?;
        Ok(event)
    }

    /// Takes an event back whose mark has come.
    pub fn recycle(&mut self, event: CudaEvent) {
        self.unused.push(event);
    }

    /// Waits for all copies started so far.
    pub fn synchronize(&self) {
        self.device.bind();
        // SAFETY: the stream lives as long as `self`. A failure shows at the next call.
        unsafe { sys::cuStreamSynchronize(self.stream) };
    }
}

impl Drop for CopyStream {
    fn drop(&mut self) {
        self.synchronize();
        // SAFETY: made in `new`, owned by `self`, and nothing is under way on it.
        unsafe { sys::cuStreamDestroy_v2(self.stream) };
    }
}

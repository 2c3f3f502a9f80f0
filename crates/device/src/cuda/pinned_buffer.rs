//! Host memory that the GPU copies from and to without the CPU's help.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUDA_MEMCPY2D, CUmemorytype};

use super::call::check;
use super::cuda_device::CudaDevice;
use crate::dtype::DType;
use crate::error::Error;
use crate::memory_space::MemorySpace;
use crate::shape::Shape;
use crate::view::{View, ViewMut};

pub struct PinnedBuffer {
    device: Arc<CudaDevice>,
    data: *mut c_void,
    bytes: usize,
}

// SAFETY: plain bytes with one owner.
unsafe impl Send for PinnedBuffer {}
// SAFETY: shared access only reads.
unsafe impl Sync for PinnedBuffer {}

impl CudaDevice {
    /// Takes host memory that the GPU can copy from and to while both work; until the arena is
    /// reserved.
    pub fn pinned(self: &Arc<Self>, bytes: usize) -> Result<PinnedBuffer, Error> {
        if self.budget().is_reserved() {
            return Err(Error::PinnedAfterStart { bytes });
        }
        self.bind();
        let mut data = std::ptr::null_mut();
        let bytes = bytes.max(1);
        // Cached for the CPU (no write-combining), which reads the results here.
        // SAFETY: the call writes one address.
        let code = unsafe { sys::cuMemHostAlloc(&raw mut data, bytes, 0) };
        check(code, || format!("taking {bytes} bytes of pinned host memory"))?;
        // SAFETY: just allocated with this length.
        unsafe { data.cast::<u8>().write_bytes(0, bytes) };
        Ok(PinnedBuffer { device: Arc::clone(self), data, bytes })
    }
}

impl PinnedBuffer {
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: initialised when taken, alive as long as `self`; a copy that may still write here
        // is waited for by the caller's event.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.bytes) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.data.cast(), self.bytes) }
    }

    /// The first elements as a tensor that the GPU reads over the bus. Nobody may write them
    /// meanwhile.
    pub fn device_view(&self, dtype: DType, shape: impl Into<Shape>) -> View<'_> {
        let shape = shape.into();
        assert!(shape.count() * dtype.bytes() <= self.bytes, "{shape:?} of {} bytes", self.bytes);
        let address = self.device_address().expect("pinned memory is mapped");
        let data = std::ptr::without_provenance(address as usize);
        // SAFETY: the bytes suffice, are aligned to a page, and are borrowed with `self`.
        unsafe { View::from_raw(data, MemorySpace::Device, dtype, shape) }
    }

    /// As [`device_view`](Self::device_view), to be written by the GPU. What it wrote is there when
    /// an event recorded afterwards has come.
    pub fn device_view_mut(&mut self, dtype: DType, shape: impl Into<Shape>) -> ViewMut<'_> {
        let shape = shape.into();
        assert!(shape.count() * dtype.bytes() <= self.bytes, "{shape:?} of {} bytes", self.bytes);
        let address = self.device_address().expect("pinned memory is mapped");
        let data = std::ptr::without_provenance_mut(address as usize);
        // SAFETY: as in `device_view`, borrowed exclusively.
        unsafe { ViewMut::from_raw(data, MemorySpace::Device, dtype, shape) }
    }

    /// The first elements as a tensor.
    pub fn view(&self, dtype: DType, shape: impl Into<Shape>) -> View<'_> {
        let shape = shape.into();
        let wanted = shape.count() * dtype.bytes();
        assert!(wanted <= self.bytes, "{shape:?} wants {wanted} bytes, there are {}", self.bytes);
        // SAFETY: the bytes suffice, are aligned to a page and borrowed with `self`.
        unsafe { View::from_raw(self.data.cast(), MemorySpace::Host, dtype, shape) }
    }

    /// As [`view`](Self::view), to be written.
    pub fn view_mut(&mut self, dtype: DType, shape: impl Into<Shape>) -> ViewMut<'_> {
        let shape = shape.into();
        let wanted = shape.count() * dtype.bytes();
        assert!(wanted <= self.bytes, "{shape:?} wants {wanted} bytes, there are {}", self.bytes);
        // SAFETY: as in `view`, borrowed exclusively.
        unsafe { ViewMut::from_raw(self.data.cast(), MemorySpace::Host, dtype, shape) }
    }

    /// Starts copying the first bytes to the device, as many as `to` holds (dense).
    ///
    /// The bytes must stay as they are until an event recorded afterwards has come.
    pub fn copy_to(&self, offset: usize, to: &ViewMut<'_>) {
        let (address, bytes) = (to.as_view().device_address(), to.as_view().dense_bytes());
        let from = self.span(offset, bytes);
        self.device.bind();
        // SAFETY: both sides hold that many bytes; the host side is pinned.
        let code = unsafe { sys::cuMemcpyHtoDAsync_v2(address, from, bytes, self.device.stream()) };
        self.device.keep(check(code, || format!("copying {bytes} bytes to the device")));
    }

    /// As `copy_to` for rows: `rows` runs of `row_bytes` that lie one after the other here, each to
    /// the start of a row of `to`.
    pub fn copy_rows_to(&self, offset: usize, rows: usize, row_bytes: usize, to: &ViewMut<'_>) {
        let view = to.as_view();
        let pitch = view.row_stride() * view.dtype().bytes();
        assert!(row_bytes <= pitch && rows <= view.shape().dims()[0], "rows to copy");
        assert!(offset + rows * row_bytes <= self.bytes, "rows of the pinned buffer");
        if rows == 0 || row_bytes == 0 {
            return;
        }
        let copy = CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: self.data.wrapping_byte_add(offset),
            srcDevice: 0,
            srcArray: std::ptr::null_mut(),
            srcPitch: row_bytes,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstHost: std::ptr::null_mut(),
            dstDevice: view.device_address(),
            dstArray: std::ptr::null_mut(),
            dstPitch: pitch,
            WidthInBytes: row_bytes,
            Height: rows,
        };
        self.device.bind();
        // SAFETY: both sides hold the rows described.
        let code = unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, self.device.stream()) };
        self.device.keep(check(code, || format!("copying {rows} rows to the device")));
    }

    /// Starts copying from the device; the bytes are there when an event recorded afterwards has
    /// come.
    pub fn copy_from(&mut self, offset: usize, from: View<'_>) {
        let (address, bytes) = (from.device_address(), from.dense_bytes());
        let to = self.span(offset, bytes);
        self.device.bind();
        // SAFETY: both sides hold that many bytes; the host side is pinned and ours.
        let code = unsafe { sys::cuMemcpyDtoHAsync_v2(to, address, bytes, self.device.stream()) };
        self.device.keep(check(code, || format!("copying {bytes} bytes from the device")));
    }

    /// Where a kernel finds the bytes.
    pub fn device_address(&self) -> Result<u64, Error> {
        self.device.bind();
        let mut address = 0;
        // SAFETY: pinned, and alive as long as `self`; the call writes one address.
        let code = unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut address, self.data, 0) };
        check(code, || "mapping pinned memory to the GPU".into())?;
        Ok(address)
    }

    /// The address of some of the bytes.
    pub(super) fn span(&self, offset: usize, bytes: usize) -> *mut c_void {
        assert!(offset + bytes <= self.bytes, "{offset}+{bytes} of {} bytes", self.bytes);
        self.data.wrapping_byte_add(offset)
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        self.device.drain();
        // SAFETY: allocated in `CudaDevice::pinned`, and no copy uses it.
        unsafe { sys::cuMemFreeHost(self.data) };
    }
}

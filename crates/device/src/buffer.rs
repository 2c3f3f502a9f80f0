//! Owned bytes: allocated once at start on the host or a device, or a read-only part of a mapped
//! file.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::num::NonZero;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::cuda::DeviceMemory;
use crate::dtype::DType;
use crate::error::Error;
use crate::host_map::HostMap;
use crate::place::Place;
use crate::shape::Shape;
use crate::view::{View, ViewMut};

/// Allocations start at a cache-line boundary, so that no two threads share one by accident.
const ALIGNMENT: usize = 64;

/// Bytes on the host or on a device.
pub struct Buffer {
    home: Home,
}

enum Home {
    Owned(Allocation),
    Mapped { map: Arc<HostMap>, range: Range<usize> },
    Cuda(DeviceMemory),
}

impl Buffer {
    /// Takes `bytes` zeroed bytes; `what` names them in the error when there are not enough.
    ///
    /// The operating system commits the pages when they are first touched.
    pub fn zeroed(bytes: usize, what: &'static str) -> Result<Self, Error> {
        Ok(Buffer { home: Home::Owned(Allocation::zeroed(bytes, what)?) })
    }

    /// A read-only part of a mapped file; its bytes are loaded when they are first read.
    pub fn mapped(map: Arc<HostMap>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= map.len(), "range outside the file");
        Buffer { home: Home::Mapped { map, range } }
    }

    pub(crate) fn on_cuda(memory: DeviceMemory) -> Self {
        Buffer { home: Home::Cuda(memory) }
    }

    pub fn len(&self) -> usize {
        match &self.home {
            Home::Owned(allocation) => allocation.len(),
            Home::Mapped { range, .. } => range.len(),
            Home::Cuda(memory) => memory.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes to read; panics for device memory, which the host cannot reach.
    #[track_caller]
    pub fn bytes(&self) -> &[u8] {
        match &self.home {
            Home::Owned(allocation) => allocation.bytes(),
            Home::Mapped { map, range } => &map.bytes()[range.clone()],
            Home::Cuda(_) => panic!("the host cannot read device memory"),
        }
    }

    /// Lets the operating system take back the memory of a mapped file; what is read again is
    /// loaded again. Other memory stays.
    pub fn unload(&self) {
        if let Home::Mapped { map, range } = &self.home {
            map.unload(range.clone());
        }
    }

    /// The bytes to write; panics for a mapped file, which is read-only, and for device memory.
    #[track_caller]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.home {
            Home::Owned(allocation) => allocation.bytes_mut(),
            Home::Mapped { .. } => panic!("a mapped file cannot be written"),
            Home::Cuda(_) => panic!("the host cannot write device memory"),
        }
    }

    /// The first elements as a tensor.
    #[track_caller]
    pub fn view(&self, dtype: DType, shape: impl Into<Shape>) -> View<'_> {
        let shape = shape.into();
        let (data, place) = self.start();
        self.check_fit(data, dtype, &shape);
        // SAFETY: the bytes suffice and are aligned (just checked), and are borrowed with `self`.
        unsafe { View::from_raw(data, place, dtype, shape) }
    }

    /// The first elements as a tensor to write; panics for a mapped file, which is read-only.
    #[track_caller]
    pub fn view_mut(&mut self, dtype: DType, shape: impl Into<Shape>) -> ViewMut<'_> {
        assert!(!matches!(self.home, Home::Mapped { .. }), "a mapped file cannot be written");
        let shape = shape.into();
        let (data, place) = self.start();
        self.check_fit(data, dtype, &shape);
        // SAFETY: the bytes suffice and are aligned (just checked), and are borrowed exclusively.
        unsafe { ViewMut::from_raw(data.cast_mut(), place, dtype, shape) }
    }

    pub(crate) fn start(&self) -> (*const u8, Place) {
        match &self.home {
            Home::Owned(allocation) => (allocation.data().cast_const(), Place::Host),
            Home::Mapped { map, range } => (map.bytes()[range.clone()].as_ptr(), Place::Host),
            Home::Cuda(memory) => {
                (std::ptr::without_provenance(memory.address() as usize), Place::Device)
            }
        }
    }

    #[track_caller]
    fn check_fit(&self, data: *const u8, dtype: DType, shape: &Shape) {
        let (wanted, bytes) = (shape.count() * dtype.bytes(), self.len());
        assert!(wanted <= bytes, "{shape:?} wants {wanted} bytes, buffer has {bytes}");
        assert!(data.addr().is_multiple_of(dtype.bytes()), "buffer is not aligned");
    }
}

/// Zeroed, aligned heap memory.
///
/// The allocator hands out untouched pages for large blocks of its own alignment only; asked for
/// more, it would write zeros over all of them. So we ask for some bytes more and align the start.
pub(crate) struct Allocation {
    /// What the allocator gave.
    block: NonNull<u8>,
    data: NonNull<u8>,
    bytes: usize,
}

/// What every allocator aligns to anyway.
const BLOCK_ALIGNMENT: usize = 16;

// SAFETY: an allocation is plain bytes with one owner.
unsafe impl Send for Allocation {}
// SAFETY: shared access only reads.
unsafe impl Sync for Allocation {}

impl Allocation {
    pub(crate) fn zeroed(bytes: usize, what: &'static str) -> Result<Self, Error> {
        if bytes == 0 {
            let aligned = NonZero::new(ALIGNMENT).expect("not zero");
            let data = NonNull::without_provenance(aligned);
            return Ok(Allocation { block: data, data, bytes });
        }
        let refused = Error::OutOfMemory { bytes, what };
        let Some(layout) = Self::layout(bytes) else { return Err(refused) };
        // SAFETY: the size is not zero.
        let Some(block) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            return Err(refused);
        };
        // SAFETY: less than `ALIGNMENT` bytes are skipped, so `bytes` are left.
        let data = unsafe { block.add(block.align_offset(ALIGNMENT)) };
        Ok(Allocation { block, data, bytes })
    }

    /// Of the block that holds `bytes` aligned ones.
    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes.checked_add(ALIGNMENT)?, BLOCK_ALIGNMENT).ok()
    }

    pub(crate) fn data(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `bytes` initialised bytes lie at `data` for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.bytes) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.bytes) }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let layout = Self::layout(self.bytes).expect("checked at start");
            // SAFETY: allocated in `zeroed` with this layout.
            unsafe { dealloc(self.block.as_ptr(), layout) };
        }
    }
}

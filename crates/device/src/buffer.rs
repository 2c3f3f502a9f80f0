//! Owned bytes: allocated once at start, or a read-only part of a mapped file.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::num::NonZero;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::Error;
use crate::host_map::HostMap;
use crate::shape::Shape;
use crate::view::{View, ViewMut};

/// Allocations start at a cache-line boundary, so that no two threads share one by accident.
const ALIGNMENT: usize = 64;

/// Bytes on the host.
pub struct Buffer {
    home: Home,
}

enum Home {
    Owned(Allocation),
    Mapped { map: Arc<HostMap>, range: Range<usize> },
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

    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn bytes(&self) -> &[u8] {
        match &self.home {
            Home::Owned(allocation) => allocation.bytes(),
            Home::Mapped { map, range } => &map.bytes()[range.clone()],
        }
    }

    /// The bytes to write; panics for a mapped file, which is read-only.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.home {
            Home::Owned(allocation) => allocation.bytes_mut(),
            Home::Mapped { .. } => panic!("a mapped file cannot be written"),
        }
    }

    /// The first elements as a tensor.
    #[track_caller]
    pub fn view(&self, dtype: DType, shape: impl Into<Shape>) -> View<'_> {
        let shape = shape.into();
        let bytes = self.bytes();
        check_fit(bytes, dtype, &shape);
        // SAFETY: the bytes suffice and are aligned (just checked), and are borrowed with `self`.
        unsafe { View::from_raw(bytes.as_ptr(), dtype, shape) }
    }

    /// The first elements as a tensor to write.
    #[track_caller]
    pub fn view_mut(&mut self, dtype: DType, shape: impl Into<Shape>) -> ViewMut<'_> {
        let shape = shape.into();
        let bytes = self.bytes_mut();
        check_fit(bytes, dtype, &shape);
        // SAFETY: the bytes suffice and are aligned (just checked), and are borrowed exclusively.
        unsafe { ViewMut::from_raw(bytes.as_mut_ptr(), dtype, shape) }
    }
}

#[track_caller]
fn check_fit(bytes: &[u8], dtype: DType, shape: &Shape) {
    let wanted = shape.count() * dtype.bytes();
    assert!(wanted <= bytes.len(), "{shape:?} wants {wanted} bytes, buffer has {}", bytes.len());
    assert!(bytes.as_ptr().addr().is_multiple_of(dtype.bytes()), "buffer is not aligned");
}

/// Zeroed, aligned heap memory.
pub(crate) struct Allocation {
    data: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an allocation is plain bytes with one owner.
unsafe impl Send for Allocation {}
// SAFETY: shared access only reads.
unsafe impl Sync for Allocation {}

impl Allocation {
    pub(crate) fn zeroed(bytes: usize, what: &'static str) -> Result<Self, Error> {
        if bytes == 0 {
            let aligned = NonZero::new(ALIGNMENT).expect("not zero");
            return Ok(Allocation { data: NonNull::without_provenance(aligned), bytes });
        }
        let refused = Error::OutOfMemory { bytes, what };
        let Ok(layout) = Layout::from_size_align(bytes, ALIGNMENT) else { return Err(refused) };
        // SAFETY: the size is not zero.
        let data = unsafe { alloc_zeroed(layout) };
        NonNull::new(data).map(|data| Allocation { data, bytes }).ok_or(refused)
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
            let layout = Layout::from_size_align(self.bytes, ALIGNMENT).expect("checked at start");
            // SAFETY: allocated in `zeroed` with this layout.
            unsafe { dealloc(self.data.as_ptr(), layout) };
        }
    }
}

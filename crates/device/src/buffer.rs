//! Owned bytes: allocated once at start on the host or a device, or a read-only part of a mapped
//! file.

use std::num::NonZero;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::MmapMut;

use crate::cuda::DeviceMemory;
use crate::dtype::DType;
use crate::error::Error;
use crate::host_map::HostMap;
use crate::memory_space::MemorySpace;
use crate::shape::Shape;
use crate::view::{View, ViewMut};

/// Allocations start at a cache-line boundary, so that no two threads share one by accident.
const ALIGNMENT: usize = 64;

/// Bytes on the host or on a device.
pub struct Buffer {
    storage: Storage,
}

enum Storage {
    Owned(Allocation),
    Mapped { map: Arc<HostMap>, range: Range<usize> },
    Cuda(DeviceMemory),
}

impl Buffer {
    /// Takes `bytes` zeroed bytes; `what` names them in the error when there are not enough.
    ///
    /// The operating system commits the pages when they are first touched.
    pub fn zeroed(bytes: usize, what: &'static str) -> Result<Self, Error> {
        Ok(Buffer { storage: Storage::Owned(Allocation::zeroed(bytes, what)?) })
    }

    /// A read-only part of a mapped file; its bytes are loaded when they are first read.
    pub fn mapped(map: Arc<HostMap>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= map.len(), "range outside the file");
        Buffer { storage: Storage::Mapped { map, range } }
    }

    pub(crate) fn on_cuda(memory: DeviceMemory) -> Self {
        Buffer { storage: Storage::Cuda(memory) }
    }

    pub fn len(&self) -> usize {
        match &self.storage {
            Storage::Owned(allocation) => allocation.len(),
            Storage::Mapped { range, .. } => range.len(),
            Storage::Cuda(memory) => memory.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes to read; panics for device memory, which the host cannot reach.
    #[track_caller]
    pub fn bytes(&self) -> &[u8] {
        match &self.storage {
            Storage::Owned(allocation) => allocation.bytes(),
            Storage::Mapped { map, range } => &map.bytes()[range.clone()],
            Storage::Cuda(_) => panic!("the host cannot read device memory"),
        }
    }

    /// Lets the operating system take back the memory of a mapped file; what is read again is
    /// loaded again. Other memory stays.
    pub fn unload(&self) {
        if let Storage::Mapped { map, range } = &self.storage {
            map.unload(range.clone());
        }
    }

    /// The bytes to write; panics for a mapped file, which is read-only, and for device memory.
    #[track_caller]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.storage {
            Storage::Owned(allocation) => allocation.bytes_mut(),
            Storage::Mapped { .. } => panic!("a mapped file cannot be written"),
            Storage::Cuda(_) => panic!("the host cannot write device memory"),
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
        assert!(!matches!(self.storage, Storage::Mapped { .. }), "a mapped file cannot be written");
        let shape = shape.into();
        let (data, place) = self.start();
        self.check_fit(data, dtype, &shape);
        // SAFETY: the bytes suffice and are aligned (just checked), and are borrowed exclusively.
        unsafe { ViewMut::from_raw(data.cast_mut(), place, dtype, shape) }
    }

    /// Where the first byte lies in its memory.
    pub(crate) fn address(&self) -> u64 {
        self.start().0.addr() as u64
    }

    pub(crate) fn start(&self) -> (*const u8, MemorySpace) {
        match &self.storage {
            Storage::Owned(allocation) => (allocation.data().cast_const(), MemorySpace::Host),
            Storage::Mapped { map, range } => {
                (map.bytes()[range.clone()].as_ptr(), MemorySpace::Host)
            }
            Storage::Cuda(memory) => {
                (std::ptr::without_provenance(memory.address() as usize), MemorySpace::Device)
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

/// Zeroed memory of its own mapping, which starts at a page.
pub(crate) struct Allocation {
    data: NonNull<u8>,
    /// Owns the bytes; there are none without it.
    map: Option<MmapMut>,
}

/// Buffers from this size on are worth large pages: their readers go through all of them, and with
/// small pages would look up an address every 4 KiB.
const LARGE_PAGE_BYTES: usize = 2 << 20;

// SAFETY: an allocation is plain bytes with one owner.
unsafe impl Send for Allocation {}
// SAFETY: shared access only reads.
unsafe impl Sync for Allocation {}

impl Allocation {
    pub(crate) fn zeroed(bytes: usize, what: &'static str) -> Result<Self, Error> {
        if bytes == 0 {
            let aligned = NonZero::new(ALIGNMENT).expect("not zero");
            return Ok(Allocation { data: NonNull::without_provenance(aligned), map: None });
        }
        let refused = |_| Error::OutOfMemory { bytes, what };
        let mut map = MmapMut::map_anon(bytes).map_err(refused)?;
        #[cfg(target_os = "linux")]
        if LARGE_PAGE_BYTES <= bytes {
            // A hint: systems without large pages do without.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        let data = NonNull::new(map.as_mut_ptr()).expect("a mapping is not at 0");
        Ok(Allocation { data, map: Some(map) })
    }

    pub(crate) fn data(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: so many initialised bytes lie at `data` for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len()) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len()) }
    }

    pub(crate) fn len(&self) -> usize {
        self.map.as_ref().map_or(0, |map| map.len())
    }
}

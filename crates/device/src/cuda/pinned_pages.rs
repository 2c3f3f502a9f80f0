//! Pages of host memory that a GPU copies from and to, shared by threads.
//!
//! Memory is taken in segments, since one copy may not reach over two registrations; a page lies
//! inside one. Each page has readers or one writer at a time, and a hold on it lives as long as it
//! must: until a thread has filled the page, or a GPU's copy has come. Without a GPU the memory is
//! plain and the rest is the same.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::page_lock::{Hold, PageLock};
use super::pinned_segment::PinnedSegment;

pub struct PinnedPages {
    page_bytes: usize,
    /// Of each segment but the last, which may have fewer.
    segment_pages: usize,
    locks: Vec<PageLock>,
    segments: Vec<PinnedSegment>,
}

// SAFETY: the segments are plain bytes; a page's are reached through its holds alone, of which
// either all read or there is one.
unsafe impl Send for PinnedPages {}
// SAFETY: as above.
unsafe impl Sync for PinnedPages {}

/// A page to read; nobody writes it as long as this lives.
pub struct PageRead {
    pages: Arc<PinnedPages>,
    page: usize,
}

/// A page to write; nobody else uses it as long as this lives.
pub struct PageWrite {
    pages: Arc<PinnedPages>,
    page: usize,
}

impl PinnedPages {
    pub(super) fn new(
        page_bytes: usize,
        segment_pages: usize,
        pages: usize,
        segments: Vec<PinnedSegment>,
    ) -> Self {
        assert_eq!(segments.len(), pages.div_ceil(segment_pages), "segments of {pages} pages");
        let locks = (0..pages).map(|_| PageLock::default()).collect();
        PinnedPages { page_bytes, segment_pages, locks, segments }
    }

    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    pub fn len(&self) -> usize {
        self.locks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// Waits until nobody writes the page.
    #[track_caller]
    pub fn read(self: &Arc<Self>, page: usize) -> PageRead {
        self.lock(page).hold(Hold::Read);
        PageRead { pages: Arc::clone(self), page }
    }

    /// Waits until nobody uses the page.
    #[track_caller]
    pub fn write(self: &Arc<Self>, page: usize) -> PageWrite {
        self.lock(page).hold(Hold::Write);
        PageWrite { pages: Arc::clone(self), page }
    }

    /// `None` where somebody writes the page.
    #[track_caller]
    pub fn try_read(self: &Arc<Self>, page: usize) -> Option<PageRead> {
        let granted = self.lock(page).try_hold(Hold::Read);
        granted.then(|| PageRead { pages: Arc::clone(self), page })
    }

    /// `None` where somebody uses the page.
    #[track_caller]
    pub fn try_write(self: &Arc<Self>, page: usize) -> Option<PageWrite> {
        let granted = self.lock(page).try_hold(Hold::Write);
        granted.then(|| PageWrite { pages: Arc::clone(self), page })
    }

    #[track_caller]
    fn lock(&self, page: usize) -> &PageLock {
        assert!(page < self.len(), "page {page} of {}", self.len());
        &self.locks[page]
    }

    /// The segment that has the page, and bytes from its start to it.
    fn place(&self, page: usize) -> (&PinnedSegment, usize) {
        let inside = page % self.segment_pages;
        (&self.segments[page / self.segment_pages], inside * self.page_bytes)
    }

    fn data(&self, page: usize) -> *mut u8 {
        let (segment, offset) = self.place(page);
        segment.data().wrapping_add(offset)
    }

    #[track_caller]
    fn device_address(&self, page: usize) -> u64 {
        let (segment, offset) = self.place(page);
        let start = segment.device_address().expect("no GPU reaches plain host memory");
        start + offset as u64
    }
}

/// What both holds can be asked for.
macro_rules! common {
    ($hold:ident, $kind:expr) => {
        impl $hold {
            pub fn page(&self) -> usize {
                self.page
            }

            /// Where a GPU sees the page; panics for plain memory.
            #[track_caller]
            pub fn device_address(&self) -> u64 {
                self.pages.device_address(self.page)
            }
        }

        impl Deref for $hold {
            type Target = [u8];

            fn deref(&self) -> &[u8] {
                let data = self.pages.data(self.page);
                // SAFETY: the page lies inside its segment, which `pages` keeps; its bytes were
                // zeroed when taken, and the hold keeps writers out.
                unsafe { std::slice::from_raw_parts(data, self.pages.page_bytes) }
            }
        }

        impl Drop for $hold {
            fn drop(&mut self) {
                self.pages.locks[self.page].release($kind);
            }
        }
    };
}
common!(PageRead, Hold::Read);
common!(PageWrite, Hold::Write);

impl DerefMut for PageWrite {
    fn deref_mut(&mut self) -> &mut [u8] {
        let data = self.pages.data(self.page);
        // SAFETY: as in `deref`; the hold keeps everybody else out.
        unsafe { std::slice::from_raw_parts_mut(data, self.pages.page_bytes) }
    }
}

#[cfg(test)]
mod tests;

//! Launches `copy_pages.cu`.

use terrace_device::{DType, View, ViewMut};

use crate::cuda::{TypedKernel, extent, kernel_params};

const THREADS: usize = 256;
/// Enough to fill a GPU; with more each thread would copy too little of a page.
const MOST_BLOCKS: usize = 512;

kernel_params! {
    /// Twin of `CopyPagesParams` in `copy_pages.cu`.
    pub(crate) struct CopyPagesParams: 32 bytes {
        pages: u64,
        pairs: u64,
        page_bytes: u64,
        copies: u32,
    }
}

impl TypedKernel<CopyPagesParams> {
    /// pages: u8 `[pages, page_bytes]`, dense · pairs: i32 `[copies, 2]` (from, to), done in order
    pub(crate) fn copy_pages(&self, pages: ViewMut<'_>, pairs: View<'_>) {
        let ([count, page_bytes], [copies, two]) = (pages.dims(), pairs.dims());
        assert_eq!(two, 2, "pairs of copy_pages");
        assert_eq!(pages.as_view().dense_bytes(), count * page_bytes, "pages of copy_pages");
        assert!(pairs.dtype() == DType::I32, "pairs of copy_pages");
        if copies == 0 {
            return;
        }
        let params = CopyPagesParams {
            pages: pages.device_address(),
            pairs: pairs.device_address(),
            page_bytes: page_bytes as u64,
            copies: extent(copies),
        };
        let blocks = page_bytes.div_ceil(THREADS * 16).min(MOST_BLOCKS);
        // SAFETY: the shapes were just checked; that the pages exist is the promise of whoever made
        // `pairs`.
        unsafe { self.launch([blocks, 1, 1], THREADS, &params) };
    }
}

//! Launches `copy_pages.cu`.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{extent, load};
use crate::error::Error;

pub(crate) struct CopyPagesKernel {
    copy_pages: CudaKernel,
}

const THREADS: usize = 256;
/// Enough to fill a GPU; with more each thread would copy too little of a page.
const MOST_BLOCKS: usize = 512;

/// Twin of `CopyPagesParams` in `copy_pages.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CopyPagesParams {
    pages: u64,
    pairs: u64,
    page_bytes: u64,
    copies: u32,
}

const _: () = assert!(size_of::<CopyPagesParams>() == 32);

impl CopyPagesKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let module = load(device, "copy_pages", "any")?;
        Ok(CopyPagesKernel { copy_pages: module.kernel("copy_pages")? })
    }

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
        let launch =
            Launch { grid: [extent(blocks), 1, 1], block: THREADS as u32, shared_bytes: 0 };
        // SAFETY: the params are the kernel's own, the shapes were just checked; that the pages
        // exist is the promise of whoever made `pairs`.
        unsafe { self.copy_pages.launch(launch, &params) };
    }
}

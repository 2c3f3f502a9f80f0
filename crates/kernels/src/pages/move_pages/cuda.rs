//! Launches `move_pages.cu`.

use std::ops::Range;
use std::sync::Arc;

use terrace_device::ViewMut;
use terrace_device::cuda::{CopyStream, CudaDevice};

use super::page_moves::PageMoves;
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;

const THREADS: usize = 512;

kernel_params! {
    /// Twin of `MovePagesParams` in `move_pages.cu`.
    struct MovePagesParams: 48 bytes {
        pages: u64,
        moves: u64,
        page_bytes: u64,
        start: u64,
        bytes: u64,
        count: u32,
    }
}

pub(super) struct MovePagesKernels {
    gather: TypedKernel<MovePagesParams>,
    scatter: TypedKernel<MovePagesParams>,
}

impl MovePagesKernels {
    /// Bytes of an entry of the list, `PageMove` in `move_pages.cu`.
    pub(super) const ENTRY_BYTES: usize = 16;

    pub(super) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let module = load(device, "move_pages", "any")?;
        Ok(MovePagesKernels {
            gather: TypedKernel::find(&module, "gather_pages")?,
            scatter: TypedKernel::find(&module, "scatter_pages")?,
        })
    }

    /// Writes an entry: where the kernel finds a page of the host, and the device's.
    pub(super) fn write_entry(entry: &mut [u8], host: u64, page: usize) {
        entry[..8].copy_from_slice(&host.to_ne_bytes());
        entry[8..].copy_from_slice(&(page as u64).to_ne_bytes());
    }

    /// pages: u8 `[pages, page_bytes]`, dense
    ///
    /// # Safety
    /// `list` is pinned memory with an entry for each of `moves`. It stays as it is, and the pages
    /// of both sides are not used otherwise, until a mark made afterwards has come.
    pub(super) unsafe fn move_part(
        &self,
        stream: &CopyStream,
        blocks: usize,
        pages: &ViewMut<'_>,
        moves: &PageMoves,
        list: u64,
        part: &Range<usize>,
    ) {
        let [_, page_bytes] = pages.dims();
        let params = MovePagesParams {
            pages: pages.device_address(),
            moves: list,
            page_bytes: page_bytes as u64,
            start: part.start as u64,
            bytes: part.len() as u64,
            count: extent(moves.len()),
        };
        let kernel = match moves {
            PageMoves::In(_) => &self.gather,
            PageMoves::Out(_) => &self.scatter,
        };
        // SAFETY: the mover has checked that the pages exist and the part lies inside them; the
        // rest is the caller's contract.
        unsafe { kernel.launch_beside(stream, [blocks, 1, 1], THREADS, &params) };
    }

    /// Launched on the compute stream.
    ///
    /// # Safety
    /// The list has one entry, of pinned memory with the bytes, which stay as they are until an
    /// event recorded afterwards has come; so has the device's side.
    pub(super) unsafe fn to_device(&self, passed: &PassedBytes) {
        // SAFETY: the caller's contract.
        unsafe { passed.launch(&self.gather) };
    }

    /// As [`to_device`](Self::to_device), the other way.
    ///
    /// # Safety
    /// As there; the host's bytes are not used until that event has come.
    pub(super) unsafe fn to_host(&self, passed: &PassedBytes) {
        // SAFETY: the caller's contract.
        unsafe { passed.launch(&self.scatter) };
    }
}

/// Some bytes of one place in pinned memory, and of the device.
pub(super) struct PassedBytes {
    pub(super) list: u64,
    pub(super) device: u64,
    /// On the host's side.
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

/// Of small copies: enough to have all their bytes on their way at once.
const MOST_BLOCKS: usize = 16;
/// A warp takes as much at once.
const WARP_BYTES: usize = 4096;

impl PassedBytes {
    unsafe fn launch(&self, kernel: &TypedKernel<MovePagesParams>) {
        if self.bytes == 0 {
            return;
        }
        let params = MovePagesParams {
            // The kernel adds the offset on both sides.
            pages: self.device.wrapping_sub(self.offset as u64),
            moves: self.list,
            page_bytes: 0,
            start: self.offset as u64,
            bytes: self.bytes as u64,
            count: 1,
        };
        let warps = self.bytes.div_ceil(WARP_BYTES);
        let blocks = warps.div_ceil(THREADS / 32).min(MOST_BLOCKS);
        // SAFETY: the caller's contract.
        unsafe { kernel.launch([blocks, 1, 1], THREADS, &params) };
    }
}

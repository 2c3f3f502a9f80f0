//! Launches `unpack.cu`.

use std::ops::Range;
use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};
use terrace_device::{DType, View, ViewMut};

use super::matrix_kind::{BLOCK_COLUMNS, PANEL_ROWS, Packing};
use crate::cuda::{extent, load};
use crate::error::Error;

/// Makes rows of a packed matrix bf16, for products of many tokens.
pub(crate) struct UnpackKernel {
    unpack: CudaKernel,
    packing: Packing,
}

/// Blocks of a panel that a block of threads unpacks.
const BLOCKS: usize = 16;
const THREADS: u32 = 256;

/// Twin of `UnpackParams` in `unpack.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct UnpackParams {
    packed: u64,
    out: u64,
    first_row: u32,
    rows: u32,
    columns: u32,
}

const _: () = assert!(size_of::<UnpackParams>() == 32);

impl UnpackKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, packing: Packing) -> Result<Self, Error> {
        let module = load(device, "unpack", packing.name())?;
        Ok(UnpackKernel { unpack: module.kernel("unpack")?, packing })
    }

    /// packed: the bytes of a matrix · rows: a range of its rows, from a multiple of 16 on when no
    /// work shall be done twice · out: bf16 `[rows.len(), columns]`, dense.
    pub(crate) fn unpack_rows(&self, packed: View<'_>, rows: Range<usize>, out: &ViewMut<'_>) {
        let [count, columns] = out.dims();
        assert_eq!(count, rows.len(), "out of unpack_rows");
        assert_eq!(out.row_stride(), columns, "out of unpack_rows is strided");
        assert!(out.dtype() == DType::Bf16 && packed.dtype() == DType::U8, "types of unpack_rows");
        let held = packed.dense_bytes();
        let needed = self.packing.matrix_bytes(rows.end, columns);
        assert!(needed <= held, "{needed} bytes up to row {} of {held}", rows.end);
        let params = UnpackParams {
            packed: packed.device_address(),
            out: out.device_address(),
            first_row: extent(rows.start),
            rows: extent(count),
            columns: extent(columns),
        };
        assert!(
            (params.packed | params.out).is_multiple_of(16),
            "unpack_rows wants whole 16 bytes"
        );
        let panels = rows.end.div_ceil(PANEL_ROWS) - rows.start / PANEL_ROWS;
        let grid = [extent((columns / BLOCK_COLUMNS).div_ceil(BLOCKS)), extent(panels), 1];
        let launch = Launch { grid, block: THREADS, shared_bytes: 0 };
        // SAFETY: the params are the kernel's own; the range was just checked against the bytes.
        unsafe { self.unpack.launch(launch, &params) };
    }
}

//! Launches `unpack.cu`.

use std::ops::Range;
use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, ViewMut};

use super::device_matrix::DeviceMatrix;
use super::matrix_kind::{BLOCK_COLUMNS, MatrixKind, PANEL_ROWS, Packing};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

/// Makes rows of a packed matrix numbers, for products of many tokens.
pub(crate) struct UnpackKernel {
    unpack: TypedKernel<UnpackParams>,
    packing: Packing,
    /// What becomes of the weights.
    out: DType,
}

kernel_params! {
    /// Twin of `UnpackParams` in `unpack.cu`.
    struct UnpackParams: 32 bytes {
        packed: u64,
        out: u64,
        first_row: u32,
        rows: u32,
        columns: u32,
    }
}

/// Blocks of a panel that a block of threads unpacks.
const BLOCKS: usize = 16;
const THREADS: usize = 256;

impl UnpackKernel {
    pub(crate) fn load(
        device: &Arc<CudaDevice>,
        packing: Packing,
        out: DType,
    ) -> Result<Self, Error> {
        let unpack = TypedKernel::load(device, "unpack", &packing.variant(out))?;
        Ok(UnpackKernel { unpack, packing, out })
    }

    /// rows: a range of the matrix's, from a multiple of 16 on when no work shall be done twice ·
    /// out: `[rows.len(), columns]`, dense.
    pub(crate) fn unpack_rows(&self, matrix: &DeviceMatrix, rows: Range<usize>, out: &ViewMut<'_>) {
        let (count, columns) = (rows.len(), matrix.columns());
        assert_eq!(matrix.kind(), MatrixKind::Packed(self.packing), "matrix of unpack_rows");
        assert!(rows.end <= matrix.rows(), "rows {rows:?} of {}", matrix.rows());
        assert_eq!(out.dims(), [count, columns], "out of unpack_rows");
        assert_eq!(out.row_stride(), columns, "out of unpack_rows is strided");
        assert!(out.dtype() == self.out, "type of unpack_rows");
        let params = UnpackParams {
            packed: matrix.packed().device_address(),
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
        let grid = [(columns / BLOCK_COLUMNS).div_ceil(BLOCKS), panels, 1];
        // SAFETY: the range was just checked.
        unsafe { self.unpack.launch(grid, THREADS, &params) };
    }
}

//! Launches `gather_rows.cu`.

use terrace_device::{DType, View, ViewMut};

use crate::cuda::{TypedKernel, kernel_params};

const THREADS: usize = 256;

kernel_params! {
    /// Twin of `GatherRowsParams` in `gather_rows.cu`; strides are bytes.
    pub(crate) struct GatherRowsParams: 48 bytes {
        x: u64,
        rows: u64,
        out: u64,
        x_stride: u64,
        out_stride: u64,
        row_bytes: u64,
    }
}

impl TypedKernel<GatherRowsParams> {
    /// x: `[tokens, dim]` · rows: i32 `[picked]` · out: `[picked, dim]` of the same type, whose
    /// numbers have 2 bytes at least; rows may be strided.
    pub(crate) fn gather_rows(&self, x: View<'_>, rows: View<'_>, out: ViewMut<'_>) {
        let ([_, dim], [picked]) = (x.dims(), rows.dims());
        let width = x.dtype().bytes();
        assert_eq!(out.dims(), [picked, dim], "out of gather_rows");
        assert!(rows.dtype() == DType::I32, "rows of gather_rows");
        assert!(width >= 2 && out.dtype() == x.dtype(), "types of gather_rows");
        let params = GatherRowsParams {
            x: x.device_address(),
            rows: rows.device_address(),
            out: out.device_address(),
            x_stride: (x.row_stride() * width) as u64,
            out_stride: (out.row_stride() * width) as u64,
            row_bytes: (dim * width) as u64,
        };
        let parts = (dim * width).div_ceil(THREADS * 16);
        // SAFETY: the shapes were just checked; that the picked rows exist is the promise of
        // whoever made `rows`.
        unsafe { self.launch([picked, parts, 1], THREADS, &params) };
    }
}

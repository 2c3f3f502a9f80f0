//! Launches `gather_rows.cu`.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{extent, load};
use crate::error::Error;

pub(crate) struct GatherRowsKernel {
    gather_rows: CudaKernel,
}

const THREADS: usize = 256;

/// Twin of `GatherRowsParams` in `gather_rows.cu`; strides are bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct GatherRowsParams {
    x: u64,
    rows: u64,
    out: u64,
    x_stride: u64,
    out_stride: u64,
    row_bytes: u64,
}

const _: () = assert!(size_of::<GatherRowsParams>() == 48);

impl GatherRowsKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let module = load(device, "gather_rows", "any")?;
        Ok(GatherRowsKernel { gather_rows: module.kernel("gather_rows")? })
    }

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
        let grid = [extent(picked), extent(parts), 1];
        let launch = Launch { grid, block: THREADS as u32, shared_bytes: 0 };
        // SAFETY: the params are the kernel's own, the shapes were just checked; that the picked
        // rows exist is the promise of whoever made `rows`.
        unsafe { self.gather_rows.launch(launch, &params) };
    }
}

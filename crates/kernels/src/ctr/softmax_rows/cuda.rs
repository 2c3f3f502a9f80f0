//! Launches `softmax_rows.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::ctr::ctr_rows::{CtrRows, THREADS, blocks};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct SoftmaxRowsKernel {
    kernel: TypedKernel<SoftmaxRowsParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `SoftmaxRowsParams` in `softmax_rows.cu`.
    struct SoftmaxRowsParams: 40 bytes {
        x: CtrRows,
        out: CtrRows,
        rows: u32,
        dim: u32,
    }
}

/// A row is a warp's.
const WARP: usize = 32;

impl SoftmaxRowsKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "softmax_rows", activation.name())?;
        Ok(SoftmaxRowsKernel { kernel, activation })
    }

    /// x: act `[rows, dim]` · out: act or f32 `[rows, dim]`
    pub(crate) fn softmax_rows(&self, x: View<'_>, out: ViewMut<'_>) {
        let [rows, dim] = x.dims();
        assert_eq!(out.dims(), [rows, dim], "out of softmax_rows");
        let params = SoftmaxRowsParams {
            x: CtrRows::of(x, self.activation),
            out: CtrRows::of_mut(&out, self.activation),
            rows: extent(rows),
            dim: extent(dim),
        };
        // SAFETY: the extents are those of the views.
        unsafe { self.kernel.launch(blocks(rows * WARP), THREADS, &params) };
    }
}

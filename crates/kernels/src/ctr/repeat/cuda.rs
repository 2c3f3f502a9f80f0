//! Launches `repeat.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use super::Repeated;
use crate::ctr::ctr_rows::{CtrRows, THREADS, blocks};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct RepeatKernel {
    kernel: TypedKernel<RepeatParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `RepeatParams` in `repeat.cu`.
    struct RepeatParams: 48 bytes {
        x: CtrRows,
        out: CtrRows,
        out_rows: u32,
        out_dim: u32,
        row_factor: u32,
        number_factor: u32,
    }
}

impl RepeatKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "repeat", activation.name())?;
        Ok(RepeatKernel { kernel, activation })
    }

    /// x: act `[rows, dim]` · out: act `[rows, factor * dim]` or `[factor * rows, dim]`
    pub(crate) fn repeat(&self, x: View<'_>, what: Repeated, out: ViewMut<'_>) {
        let ([rows, dim], [out_rows, out_dim]) = (x.dims(), out.dims());
        let is_right = match what {
            Repeated::Numbers => out_rows == rows && out_dim.is_multiple_of(dim),
            Repeated::Rows => out_dim == dim && out_rows.is_multiple_of(rows),
        };
        assert!(is_right, "out of repeat");
        let params = RepeatParams {
            x: CtrRows::of(x, self.activation),
            out: CtrRows::of_mut(&out, self.activation),
            out_rows: extent(out_rows),
            out_dim: extent(out_dim),
            row_factor: extent(out_rows / rows),
            number_factor: extent(out_dim / dim),
        };
        // SAFETY: the extents are those of the views.
        unsafe { self.kernel.launch(blocks(out_rows * out_dim), THREADS, &params) };
    }
}

//! Launches `fm_order2.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::ctr::ctr_rows::{CtrRows, THREADS, blocks};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct FmOrder2Kernel {
    kernel: TypedKernel<FmOrder2Params>,
    activation: DType,
}

kernel_params! {
    /// Twin of `FmOrder2Params` in `fm_order2.cu`.
    struct FmOrder2Params: 48 bytes {
        x: CtrRows,
        out: CtrRows,
        rows: u32,
        dim: u32,
        count: u32,
        unused: u32,
    }
}

impl FmOrder2Kernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "fm_order2", activation.name())?;
        Ok(FmOrder2Kernel { kernel, activation })
    }

    /// x: act `[rows, count * dim]` · out: act `[rows, dim]`
    pub(crate) fn fm_order2(&self, x: View<'_>, out: ViewMut<'_>) {
        let ([rows, width], [out_rows, dim]) = (x.dims(), out.dims());
        assert!(out_rows == rows && width.is_multiple_of(dim), "out of fm_order2");
        let params = FmOrder2Params {
            x: CtrRows::of(x, self.activation),
            out: CtrRows::of_mut(&out, self.activation),
            rows: extent(rows),
            dim: extent(dim),
            count: extent(width / dim),
            unused: 0,
        };
        // SAFETY: the extents are those of the views.
        unsafe { self.kernel.launch(blocks(rows * dim), THREADS, &params) };
    }
}

//! Launches `cross_step.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, ViewMut};

use super::CrossStepArgs;
use crate::ctr::ctr_rows::{CtrRows, THREADS, blocks};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct CrossStepKernel {
    kernel: TypedKernel<CrossStepParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `CrossStepParams` in `cross_step.cu`.
    struct CrossStepParams: 72 bytes {
        first: CtrRows,
        product: CtrRows,
        x: CtrRows,
        out: CtrRows,
        rows: u32,
        dim: u32,
    }
}

impl CrossStepKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "cross_step", activation.name())?;
        Ok(CrossStepKernel { kernel, activation })
    }

    /// out: act `[rows, dim]`
    pub(crate) fn cross_step(&self, args: &CrossStepArgs<'_>, out: ViewMut<'_>) {
        let [rows, dim] = out.dims();
        let rows_of = |view: terrace_device::View<'_>| {
            assert_eq!(view.dims(), [rows, dim], "inputs of cross_step");
            CtrRows::of(view, self.activation)
        };
        let params = CrossStepParams {
            first: rows_of(args.first),
            product: rows_of(args.product),
            x: rows_of(args.x),
            out: CtrRows::of_mut(&out, self.activation),
            rows: extent(rows),
            dim: extent(dim),
        };
        // SAFETY: the extents are those of the views.
        unsafe { self.kernel.launch(blocks(rows * dim), THREADS, &params) };
    }
}

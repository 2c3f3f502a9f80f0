//! Launches `reduce_rows.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use super::Reduction;
use crate::ctr::ctr_rows::{CtrRows, THREADS, blocks};
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;

pub(crate) struct ReduceRowsKernels {
    /// For rows of single numbers.
    numbers: TypedKernel<ReduceRowsParams>,
    vectors: TypedKernel<ReduceRowsParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `ReduceRowsParams` in `reduce_rows.cu`.
    struct ReduceRowsParams: 48 bytes {
        x: CtrRows,
        out: CtrRows,
        rows: u32,
        dim: u32,
        count: u32,
        factor: f32,
    }
}

impl ReduceRowsKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let module = load(device, "reduce_rows", activation.name())?;
        let numbers = TypedKernel::find(&module, "reduce_numbers")?;
        let vectors = TypedKernel::find(&module, "reduce_rows")?;
        Ok(ReduceRowsKernels { numbers, vectors, activation })
    }

    /// x: act `[rows, count * dim]` · out: act `[rows, dim]`
    pub(crate) fn reduce_rows(&self, x: View<'_>, kind: Reduction, out: ViewMut<'_>) {
        let ([rows, width], [out_rows, dim]) = (x.dims(), out.dims());
        assert!(out_rows == rows && width.is_multiple_of(dim), "out of reduce_rows");
        let params = ReduceRowsParams {
            x: CtrRows::of(x, self.activation),
            out: CtrRows::of_mut(&out, self.activation),
            rows: extent(rows),
            dim: extent(dim),
            count: extent(width / dim),
            factor: kind.factor(width / dim),
        };
        let (kernel, threads) = match dim {
            1 => (&self.numbers, 32),
            _ => (&self.vectors, dim),
        };
        // SAFETY: the extents are those of the views.
        unsafe { kernel.launch(blocks(rows * threads), THREADS, &params) };
    }
}

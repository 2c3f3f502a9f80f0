//! Launches `weight_multiply.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::ctr::ctr_rows::{CtrRows, THREADS, blocks};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;
use crate::linear::vector::Vector;

pub(crate) struct WeightMultiplyKernel {
    kernel: TypedKernel<WeightMultiplyParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `WeightMultiplyParams` in `weight_multiply.cu`.
    struct WeightMultiplyParams: 56 bytes {
        x: CtrRows,
        out: CtrRows,
        weights: u64,
        rows: u32,
        width: u32,
        dim: u32,
        unused: u32,
    }
}

impl WeightMultiplyKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "weight_multiply", activation.name())?;
        Ok(WeightMultiplyKernel { kernel, activation })
    }

    /// x: act `[rows, count]` · weights: f32 `[count * dim]` · out: act `[rows, count * dim]`
    pub(crate) fn weight_multiply(&self, x: View<'_>, weights: &Vector, out: ViewMut<'_>) {
        let ([rows, count], weights) = (x.dims(), weights.view());
        let width = weights.shape().count();
        assert!(width.is_multiple_of(count), "weights of weight_multiply");
        assert_eq!(out.dims(), [rows, width], "out of weight_multiply");
        let params = WeightMultiplyParams {
            x: CtrRows::of(x, self.activation),
            out: CtrRows::of_mut(&out, self.activation),
            weights: weights.device_address(),
            rows: extent(rows),
            width: extent(width),
            dim: extent(width / count),
            unused: 0,
        };
        // SAFETY: the extents are those of the views.
        unsafe { self.kernel.launch(blocks(rows * width), THREADS, &params) };
    }
}

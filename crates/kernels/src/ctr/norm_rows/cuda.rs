//! Launches `norm_rows.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::ctr::ctr_rows::{CtrRows, THREADS, blocks};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;
use crate::hstu::layer_norm::Affine;

pub(crate) struct NormRowsKernel {
    kernel: TypedKernel<NormRowsParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `NormRowsParams` in `norm_rows.cu`.
    struct NormRowsParams: 64 bytes {
        x: CtrRows,
        out: CtrRows,
        weight: u64,
        bias: u64,
        rows: u32,
        dim: u32,
        eps: f32,
        unused: u32,
    }
}

/// A row is a warp's.
const WARP: usize = 32;

impl NormRowsKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "norm_rows", activation.name())?;
        Ok(NormRowsKernel { kernel, activation })
    }

    /// x, out: act `[rows, dim]`
    pub(crate) fn norm_rows(&self, x: View<'_>, affine: Affine<'_>, eps: f32, out: ViewMut<'_>) {
        let [rows, dim] = x.dims();
        assert_eq!(out.dims(), [rows, dim], "out of norm_rows");
        let [weight, bias] = [affine.weight, affine.bias].map(|vector| vector.view());
        assert_eq!([weight.dims(), bias.dims()], [[dim]; 2], "columns of norm_rows");
        let params = NormRowsParams {
            x: CtrRows::of(x, self.activation),
            out: CtrRows::of_mut(&out, self.activation),
            weight: weight.device_address(),
            bias: bias.device_address(),
            rows: extent(rows),
            dim: extent(dim),
            eps,
            unused: 0,
        };
        // SAFETY: the extents are those of the views.
        unsafe { self.kernel.launch(blocks(rows * WARP), THREADS, &params) };
    }
}

//! Launches `activate_rows.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use super::CtrActivation;
use crate::ctr::ctr_rows::{ActivationParams, CtrRows, THREADS, blocks};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct ActivateRowsKernel {
    kernel: TypedKernel<ActivateRowsParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `ActivateRowsParams` in `activate_rows.cu`.
    struct ActivateRowsParams: 48 bytes {
        x: CtrRows,
        out: CtrRows,
        rows: u32,
        dim: u32,
        activation: ActivationParams,
    }
}

impl ActivateRowsKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "activate_rows", activation.name())?;
        Ok(ActivateRowsKernel { kernel, activation })
    }

    /// x: act `[rows, dim]` · out: act or f32 `[rows, dim]`
    pub(crate) fn activate_rows(&self, x: View<'_>, kind: CtrActivation, out: ViewMut<'_>) {
        assert_eq!(out.dims(), x.dims::<2>(), "out of activate_rows");
        self.launch(CtrRows::of(x, self.activation), kind, &out);
    }

    /// x: act or f32 `[rows, dim]`
    pub(crate) fn activate_in_place(&self, x: ViewMut<'_>, kind: CtrActivation) {
        self.launch(CtrRows::of_mut(&x, self.activation), kind, &x);
    }

    fn launch(&self, x: CtrRows, kind: CtrActivation, out: &ViewMut<'_>) {
        let [rows, dim] = out.dims();
        let params = ActivateRowsParams {
            x,
            out: CtrRows::of_mut(out, self.activation),
            rows: extent(rows),
            dim: extent(dim),
            activation: ActivationParams::of(Some(kind)),
        };
        // SAFETY: the extents are those of the views; a number is read by who writes it alone.
        unsafe { self.kernel.launch(blocks(rows * dim), THREADS, &params) };
    }
}

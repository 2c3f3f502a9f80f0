//! Launches `dice.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use super::DiceRule;
use crate::ctr::ctr_rows::CtrRows;
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct DiceKernel {
    kernel: TypedKernel<DiceParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `DiceParams` in `dice.cu`.
    struct DiceParams: 48 bytes {
        x: CtrRows,
        out: CtrRows,
        rows: u32,
        dim: u32,
        alpha: f32,
        eps: f32,
    }
}

/// Columns and threads of a block.
const COLUMNS: usize = 32;
const THREADS: usize = 1024;

impl DiceKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "dice", activation.name())?;
        Ok(DiceKernel { kernel, activation })
    }

    /// x, out: act `[rows, dim]`
    pub(crate) fn dice(&self, x: View<'_>, rule: DiceRule, out: ViewMut<'_>) {
        let [rows, dim] = x.dims();
        assert_eq!(out.dims(), [rows, dim], "out of dice");
        let params = DiceParams {
            x: CtrRows::of(x, self.activation),
            out: CtrRows::of_mut(&out, self.activation),
            rows: extent(rows),
            dim: extent(dim),
            alpha: rule.alpha,
            eps: rule.eps,
        };
        // SAFETY: the extents are those of the views.
        unsafe { self.kernel.launch([dim.div_ceil(COLUMNS), 1, 1], THREADS, &params) };
    }
}

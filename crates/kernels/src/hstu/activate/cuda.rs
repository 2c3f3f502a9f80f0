//! Launches `activate.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, ViewMut};

use super::Pointwise;
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct ActivateKernel {
    activate: TypedKernel<ActivateParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `ActivateParams` in `activate.cu`.
    struct ActivateParams: 24 bytes {
        x: u64,
        dim: u32,
        stride: u32,
        kind: u32,
        unused: u32,
    }
}

/// Columns that a thread works on.
const RUN: usize = 8;
const THREADS: usize = 128;

impl ActivateKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let activate = TypedKernel::load(device, "activate", activation.name())?;
        Ok(ActivateKernel { activate, activation })
    }

    /// x: act `[rows, dim]`, in place; rows may be strided.
    pub(crate) fn activate(&self, x: ViewMut<'_>, kind: Pointwise) {
        let [rows, dim] = x.dims();
        assert_eq!(x.dtype(), self.activation, "type of activate");
        let kind = match kind {
            Pointwise::Silu => 0,
            Pointwise::Relu => 1,
            Pointwise::Gelu => 2,
        };
        let (address, stride) = (x.device_address(), extent(x.row_stride()));
        let params = ActivateParams { x: address, dim: extent(dim), stride, kind, unused: 0 };
        let grid = [rows, dim.div_ceil(RUN * THREADS), 1];
        // SAFETY: the extents are those of the view, which is borrowed to be written.
        unsafe { self.activate.launch(grid, THREADS, &params) };
    }
}

//! Launches `dropout.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use super::Dropout;
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::elementwise::run_grid::RunGrid;
use crate::error::Error;

pub(crate) struct DropoutKernel {
    of_activations: TypedKernel<DropoutParams>,
    of_f32: TypedKernel<DropoutParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `DropoutParams` in `dropout.cu`.
    struct DropoutParams: 72 bytes {
        x: u64,
        out: u64,
        seed: u64,
        threshold: u64,
        position: u64,
        grid: RunGrid,
        dim: u32,
        x_stride: u32,
        out_stride: u32,
        row_tokens: u32,
        scale: f32,
    }
}

impl DropoutKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let module = load(device, "dropout", activation.name())?;
        Ok(DropoutKernel {
            of_activations: TypedKernel::find(&module, "dropout")?,
            of_f32: TypedKernel::find(&module, "dropout_f32")?,
            activation,
        })
    }

    /// x, out: `[rows, dim]`, both act or both f32; rows may be strided.
    pub(crate) fn drop_out(&self, x: View<'_>, dropout: Dropout, out: ViewMut<'_>) {
        let [rows, dim] = x.dims();
        assert_eq!(out.dims(), [rows, dim], "out of drop_out");
        assert_eq!(out.dtype(), x.dtype(), "type of out of drop_out");
        assert!(dropout.row_tokens > 0, "sequences without rows");
        let kernel = match x.dtype() {
            DType::F32 => &self.of_f32,
            other if other == self.activation => &self.of_activations,
            other => panic!("drop_out of {}", other.name()),
        };
        let grid = RunGrid::new(rows, dim);
        let params = DropoutParams {
            x: x.device_address(),
            out: out.device_address(),
            seed: dropout.seed,
            threshold: dropout.threshold(),
            position: dropout.position as u64,
            grid,
            dim: extent(dim),
            x_stride: extent(x.row_stride()),
            out_stride: extent(out.row_stride()),
            row_tokens: extent(dropout.row_tokens),
            scale: dropout.scale(),
        };
        // SAFETY: the shapes and types were just checked.
        unsafe { kernel.launch(grid.blocks(), RunGrid::THREADS, &params) };
    }
}

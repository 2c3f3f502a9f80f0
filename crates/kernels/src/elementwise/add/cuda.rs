//! Launches `add.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::elementwise::run_grid::RunGrid;
use crate::error::Error;

pub(crate) struct AddKernel {
    to_activations: TypedKernel<AddParams>,
    to_f32: TypedKernel<AddParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `AddParams` in `add.cu`.
    struct AddParams: 40 bytes {
        sum: u64,
        delta: u64,
        grid: RunGrid,
        dim: u32,
        sum_stride: u32,
        delta_stride: u32,
    }
}

impl AddKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let module = load(device, "add", activation.name())?;
        Ok(AddKernel {
            to_activations: TypedKernel::find(&module, "add")?,
            to_f32: TypedKernel::find(&module, "add_f32")?,
            activation,
        })
    }

    /// `sum += delta` · sum: act or f32 `[rows, dim]` · delta: f32 `[rows, dim]`; rows may be
    /// strided.
    pub(crate) fn add(&self, sum: ViewMut<'_>, delta: View<'_>) {
        let [rows, dim] = sum.dims();
        assert_eq!(delta.dims(), [rows, dim], "delta of add");
        assert_eq!(delta.dtype(), DType::F32, "type of delta of add");
        let kernel = match sum.dtype() {
            DType::F32 => &self.to_f32,
            other if other == self.activation => &self.to_activations,
            other => panic!("add to {}", other.name()),
        };
        let grid = RunGrid::new(rows, dim);
        let params = AddParams {
            sum: sum.device_address(),
            delta: delta.device_address(),
            grid,
            dim: extent(dim),
            sum_stride: extent(sum.row_stride()),
            delta_stride: extent(delta.row_stride()),
        };
        // SAFETY: the shapes and types were just checked; the sum is borrowed to be written.
        unsafe { kernel.launch(grid.blocks(), RunGrid::THREADS, &params) };
    }
}

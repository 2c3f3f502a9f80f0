//! Launches `cast.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::elementwise::run_grid::RunGrid;
use crate::error::Error;

pub(crate) struct CastKernel {
    to_act: TypedKernel<CastParams>,
    to_f32: TypedKernel<CastParams>,
    copy_act: TypedKernel<CastParams>,
    copy_f32: TypedKernel<CastParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `CastParams` in `cast.cu`.
    struct CastParams: 40 bytes {
        x: u64,
        out: u64,
        grid: RunGrid,
        dim: u32,
        x_stride: u32,
        out_stride: u32,
    }
}

impl CastKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let module = load(device, "cast", activation.name())?;
        Ok(CastKernel {
            to_act: TypedKernel::find(&module, "cast_to_act")?,
            to_f32: TypedKernel::find(&module, "cast_to_f32")?,
            copy_act: TypedKernel::find(&module, "copy_act")?,
            copy_f32: TypedKernel::find(&module, "copy_f32")?,
            activation,
        })
    }

    /// x, out: act or f32 each, `[rows, dim]`; rows may be strided.
    pub(crate) fn cast(&self, x: View<'_>, out: ViewMut<'_>) {
        let [rows, dim] = x.dims();
        assert_eq!(out.dims(), [rows, dim], "out of cast");
        let (from, to) = (x.dtype(), out.dtype());
        let is_known = |dtype| dtype == DType::F32 || dtype == self.activation;
        assert!(is_known(from) && is_known(to), "cast of {} to {}", from.name(), to.name());
        let kernel = match (from == DType::F32, to == DType::F32) {
            (true, true) => &self.copy_f32,
            (true, false) => &self.to_act,
            (false, true) => &self.to_f32,
            (false, false) => &self.copy_act,
        };
        let grid = RunGrid::new(rows, dim);
        let params = CastParams {
            x: x.device_address(),
            out: out.device_address(),
            grid,
            dim: extent(dim),
            x_stride: extent(x.row_stride()),
            out_stride: extent(out.row_stride()),
        };
        // SAFETY: the shapes and types were just checked.
        unsafe { kernel.launch(grid.blocks(), RunGrid::THREADS, &params) };
    }
}

//! Launches `unit_rows.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;
use crate::hstu::layer_norm::cuda::threads_of_row;

pub(crate) struct UnitRowsKernel {
    to_activation: TypedKernel<UnitRowsParams>,
    to_f32: TypedKernel<UnitRowsParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `UnitRowsParams` in `unit_rows.cu`.
    struct UnitRowsParams: 40 bytes {
        x: u64,
        rows: u64,
        out: u64,
        dim: u32,
        x_stride: u32,
        out_stride: u32,
        least: f32,
    }
}

impl UnitRowsKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let load = |dtype: DType| TypedKernel::load(device, "unit_rows", dtype.name());
        let (to_activation, to_f32) = (load(activation)?, load(DType::F32)?);
        Ok(UnitRowsKernel { to_activation, to_f32, activation })
    }

    /// x: f32 `[tokens, dim]` · rows: i32 `[picked]`, each below `tokens` · out: act or
    /// f32 `[picked, dim]`
    pub(crate) fn unit_rows(&self, x: View<'_>, rows: View<'_>, least: f32, out: ViewMut<'_>) {
        let ([_, dim], [picked]) = (x.dims(), rows.dims());
        assert_eq!(out.dims(), [picked, dim], "out of unit_rows");
        assert_eq!([x.dtype(), rows.dtype()], [DType::F32, DType::I32], "types of unit_rows");
        let kernel = match out.dtype() {
            DType::F32 => &self.to_f32,
            other if other == self.activation => &self.to_activation,
            other => panic!("unit rows of {}", other.name()),
        };
        let params = UnitRowsParams {
            x: x.device_address(),
            rows: rows.device_address(),
            out: out.device_address(),
            dim: extent(dim),
            x_stride: extent(x.row_stride()),
            out_stride: extent(out.row_stride()),
            least,
        };
        // SAFETY: the shapes were just checked; that the rows exist is the caller's promise, as it
        // is for every op that picks rows.
        unsafe { kernel.launch([picked, 1, 1], threads_of_row(dim), &params) };
    }
}

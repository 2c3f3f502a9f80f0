//! Launches `scale_shift.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, ViewMut};

use super::ScaleShiftArgs;
use crate::ctr::ctr_rows::{CtrRows, THREADS, blocks};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct ScaleShiftKernel {
    kernel: TypedKernel<ScaleShiftParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `ScaleShiftParams` in `scale_shift.cu`.
    struct ScaleShiftParams: 56 bytes {
        x: CtrRows,
        out: CtrRows,
        scale: u64,
        shift: u64,
        rows: u32,
        dim: u32,
    }
}

impl ScaleShiftKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "scale_shift", activation.name())?;
        Ok(ScaleShiftKernel { kernel, activation })
    }

    /// out: act `[rows, dim]`
    pub(crate) fn scale_shift(&self, args: &ScaleShiftArgs<'_>, out: ViewMut<'_>) {
        let [rows, dim] = args.x.dims();
        assert_eq!(out.dims(), [rows, dim], "out of scale_shift");
        let [scale, shift] = [args.scale, args.shift].map(|vector| vector.view());
        assert_eq!([scale.dims(), shift.dims()], [[dim]; 2], "columns of scale_shift");
        let params = ScaleShiftParams {
            x: CtrRows::of(args.x, self.activation),
            out: CtrRows::of_mut(&out, self.activation),
            scale: scale.device_address(),
            shift: shift.device_address(),
            rows: extent(rows),
            dim: extent(dim),
        };
        // SAFETY: the extents are those of the views.
        unsafe { self.kernel.launch(blocks(rows * dim), THREADS, &params) };
    }
}

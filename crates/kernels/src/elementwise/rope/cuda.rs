//! Launches `rope.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, ViewMut};

use super::{RopeAngles, RopeStyle};
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::elementwise::run_grid::RunGrid;
use crate::error::Error;

pub(crate) struct RopeKernel {
    of_activations: TypedKernel<RopeParams>,
    of_f32: TypedKernel<RopeParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `RopeParams` in `rope.cu`.
    struct RopeParams: 72 bytes {
        x: u64,
        cos: u64,
        sin: u64,
        grid: RunGrid,
        pairs: u32,
        head_runs: u32,
        dim: u32,
        x_stride: u32,
        cos_stride: u32,
        sin_stride: u32,
        is_interleaved: u32,
        is_back: u32,
    }
}

impl RopeKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let module = load(device, "rope", activation.name())?;
        Ok(RopeKernel {
            of_activations: TypedKernel::find(&module, "rope")?,
            of_f32: TypedKernel::find(&module, "rope_f32")?,
            activation,
        })
    }

    /// x: act or f32 `[tokens, heads, dim]`, in place; tokens may be strided.
    pub(crate) fn rotate(&self, x: ViewMut<'_>, angles: RopeAngles<'_>, style: RopeStyle) {
        self.launch(&x, angles, style, false);
    }

    /// The gradient of [`rotate`](Self::rotate), in place.
    pub(crate) fn rotate_back(&self, x: ViewMut<'_>, angles: RopeAngles<'_>, style: RopeStyle) {
        self.launch(&x, angles, style, true);
    }

    fn launch(&self, x: &ViewMut<'_>, angles: RopeAngles<'_>, style: RopeStyle, is_back: bool) {
        let RopeAngles { cos, sin } = angles;
        let ([tokens, heads, dim], [_, pairs]) = (x.dims(), cos.dims());
        assert_eq!([cos.dims(), sin.dims()], [[tokens, pairs]; 2], "angles of rope");
        assert!(2 * pairs <= dim, "rotation of {} elements in heads of {dim}", 2 * pairs);
        let are_f32 = [cos.dtype(), sin.dtype()] == [DType::F32; 2];
        assert!(are_f32, "types of rope's angles");
        let kernel = match x.dtype() {
            DType::F32 => &self.of_f32,
            other if other == self.activation => &self.of_activations,
            other => panic!("rope of {}", other.name()),
        };
        let head_runs = pairs.div_ceil(RunGrid::RUN);
        let grid = RunGrid::with_runs(tokens, heads * head_runs);
        let params = RopeParams {
            x: x.device_address(),
            cos: cos.device_address(),
            sin: sin.device_address(),
            grid,
            pairs: extent(pairs),
            head_runs: extent(head_runs),
            dim: extent(dim),
            x_stride: extent(x.row_stride()),
            cos_stride: extent(cos.row_stride()),
            sin_stride: extent(sin.row_stride()),
            is_interleaved: u32::from(style == RopeStyle::Interleaved),
            is_back: u32::from(is_back),
        };
        // SAFETY: the shapes and types were just checked.
        unsafe { kernel.launch(grid.blocks(), RunGrid::THREADS, &params) };
    }
}

//! Launches `gate_gradients.cu`.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use super::{Activation, GateGradients};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::elementwise::run_grid::RunGrid;
use crate::error::Error;

pub(crate) struct GateGradientsKernel {
    kernel: TypedKernel<GateGradientsParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `GateGradientsParams` in `gate_gradients.cu`.
    struct GateGradientsParams: 80 bytes {
        gate: u64,
        up: u64,
        d_out: u64,
        d_gate: u64,
        d_up: u64,
        grid: RunGrid,
        dim: u32,
        gate_stride: u32,
        up_stride: u32,
        d_out_stride: u32,
        d_gate_stride: u32,
        d_up_stride: u32,
        is_gelu: u32,
    }
}

impl GateGradientsKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "gate_gradients", activation.name())?;
        Ok(GateGradientsKernel { kernel, activation })
    }

    /// gate, up: act `[tokens, dim]` · d_out, d_gate, d_up: f32 `[tokens, dim]`; rows may be
    /// strided.
    pub(crate) fn run(&self, args: GateGradients<'_>) {
        let GateGradients { gate, up, kind, d_out, d_gate, d_up } = args;
        let [tokens, dim] = gate.dims();
        for other in [up, d_out, d_gate.as_view(), d_up.as_view()] {
            assert_eq!(other.dims(), [tokens, dim], "arrays of gate_gradients");
        }
        let inputs = [gate.dtype(), up.dtype()];
        let gradients = [d_out.dtype(), d_gate.dtype(), d_up.dtype()];
        let are_right = inputs == [self.activation; 2] && gradients == [DType::F32; 3];
        assert!(are_right, "types of gate_gradients: {inputs:?}, {gradients:?}");
        let grid = RunGrid::new(tokens, dim);
        let params = GateGradientsParams {
            gate: gate.device_address(),
            up: up.device_address(),
            d_out: d_out.device_address(),
            d_gate: d_gate.device_address(),
            d_up: d_up.device_address(),
            grid,
            dim: extent(dim),
            gate_stride: extent(gate.row_stride()),
            up_stride: extent(up.row_stride()),
            d_out_stride: extent(d_out.row_stride()),
            d_gate_stride: extent(d_gate.row_stride()),
            d_up_stride: extent(d_up.row_stride()),
            is_gelu: u32::from(kind == Activation::GeluTanh),
        };
        // SAFETY: the shapes and types were just checked.
        unsafe { self.kernel.launch(grid.blocks(), RunGrid::THREADS, &params) };
    }
}

//! Launches `gate.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::elementwise::gate::Activation;
use crate::error::Error;

pub(crate) struct GateKernel {
    gate: TypedKernel<GateParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `GateParams` in `gate.cu`.
    struct GateParams: 48 bytes {
        gate: u64,
        up: u64,
        out: u64,
        dim: u32,
        gate_stride: u32,
        up_stride: u32,
        out_stride: u32,
        run_step: u32,
        is_gelu: u32,
    }
}

/// Columns that a thread works on; they lie together in both layouts.
const RUN: usize = 8;
const THREADS: usize = 128;

impl GateKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        Ok(GateKernel { gate: TypedKernel::load(device, "gate", activation.name())?, activation })
    }

    /// `out = activation(gate) * up`, all act `[tokens, dim]`; rows may be strided.
    pub(crate) fn gate(&self, gate: View<'_>, up: View<'_>, kind: Activation, out: ViewMut<'_>) {
        assert_eq!(gate.shape(), out.shape(), "gate of gate");
        assert_eq!(up.shape(), out.shape(), "up of gate");
        self.launch(gate, up, RUN, kind, &out);
    }

    /// The same from columns that take turns: eight of the gate, eight of the up product, and so on
    /// · both: act `[tokens, 2 dim]` · out: act `[tokens, dim]`, dim a multiple of 8.
    pub(crate) fn gate_interleaved(&self, both: View<'_>, kind: Activation, out: ViewMut<'_>) {
        let [tokens, dim] = out.dims();
        assert_eq!(both.dims(), [tokens, 2 * dim], "both of gate");
        assert!(dim > 0 && dim.is_multiple_of(RUN), "{dim} columns do not make whole runs");
        let up = both.columns(RUN, 2 * dim - RUN);
        self.launch(both, up, 2 * RUN, kind, &out);
    }

    fn launch(
        &self,
        gate: View<'_>,
        up: View<'_>,
        run_step: usize,
        kind: Activation,
        out: &ViewMut<'_>,
    ) {
        let types = [gate.dtype(), up.dtype(), out.dtype()];
        assert!(types == [self.activation; 3], "types of gate: {types:?}");
        let [tokens, dim] = out.dims();
        let params = GateParams {
            gate: gate.device_address(),
            up: up.device_address(),
            out: out.device_address(),
            dim: extent(dim),
            gate_stride: extent(gate.row_stride()),
            up_stride: extent(up.row_stride()),
            out_stride: extent(out.row_stride()),
            run_step: extent(run_step),
            is_gelu: u32::from(kind == Activation::GeluTanh),
        };
        let grid = [dim.div_ceil(RUN * THREADS), tokens, 1];
        // SAFETY: the callers have checked the shapes.
        unsafe { self.gate.launch(grid, THREADS, &params) };
    }
}

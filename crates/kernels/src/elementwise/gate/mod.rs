//! The gated unit of a feed-forward layer: `activation(gate) * up`.
//!
//! gate, up, out: f32 `[tokens, dim]`; rows may be strided.
//!
//! Roofline: 12 bytes and about 20 flops (an exponential) per element; bound by arithmetic.

mod activation;
mod backward;
pub(crate) mod cuda;
pub(crate) mod cuda_gradients;
pub(crate) mod reference;
pub(crate) mod simd;

pub use activation::Activation;
pub use backward::GateGradients;
pub(crate) use backward::gate_gradients;
use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

pub(crate) fn gate(ctx: &CpuCtx, gate: View<'_>, up: View<'_>, kind: Activation, out: ViewMut<'_>) {
    let [tokens, dim] = gate.dims();
    assert_eq!(up.dims(), [tokens, dim], "up of gate");
    assert_eq!(out.dims(), [tokens, dim], "out of gate");
    ctx.write_rows(out, |token, out| {
        ctx.simd.run(Gate { gate: gate.row(token), up: up.row(token), kind, out });
    });
}

/// One token.
struct Gate<'a> {
    gate: &'a [f32],
    up: &'a [f32],
    kind: Activation,
    out: &'a mut [f32],
}

impl Kernel for Gate<'_> {
    fn reference(self) {
        reference::gate(self.gate, self.up, self.kind, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        simd::gate(lanes, self.gate, self.up, self.kind, self.out);
    }
}

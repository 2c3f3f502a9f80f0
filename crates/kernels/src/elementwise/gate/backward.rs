//! Gradients of a gated unit, which are written: nothing else adds to them.

use terrace_device::{SharedRows, View, ViewMut};

use super::{Activation, reference, simd};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

/// All f32 `[tokens, dim]`; rows may be strided.
pub struct GateGradients<'a> {
    pub gate: View<'a>,
    pub up: View<'a>,
    pub kind: Activation,
    pub d_out: View<'a>,
    pub d_gate: ViewMut<'a>,
    pub d_up: ViewMut<'a>,
}

pub(crate) fn gate_gradients(ctx: &CpuCtx, args: GateGradients<'_>) {
    let GateGradients { gate, up, kind, d_out, mut d_gate, mut d_up } = args;
    let [tokens, dim] = gate.dims();
    for other in [up, d_out, d_gate.as_view(), d_up.as_view()] {
        assert_eq!(other.dims(), [tokens, dim], "arrays of gate_gradients");
    }
    let d_gate = SharedRows::<f32>::new(&mut d_gate);
    let d_up = SharedRows::<f32>::new(&mut d_up);
    ctx.for_rows(tokens, dim, &|token| {
        // SAFETY: each row is one task's.
        let (d_gate, d_up) = unsafe { (d_gate.row_mut(token), d_up.row_mut(token)) };
        let inputs = [gate, up, d_out].map(|input| input.row(token));
        ctx.simd.run(Token { inputs, kind, d_gate, d_up });
    });
}

struct Token<'a> {
    inputs: [&'a [f32]; 3],
    kind: Activation,
    d_gate: &'a mut [f32],
    d_up: &'a mut [f32],
}

impl Kernel for Token<'_> {
    fn reference(self) {
        reference::gradients(self.inputs, self.kind, self.d_gate, self.d_up);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        simd::gradients(lanes, self.inputs, self.kind, self.d_gate, self.d_up);
    }
}

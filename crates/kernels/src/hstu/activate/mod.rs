//! A function of each number, in place: what HSTU's projections and heads end with.
//!
//! x: act `[rows, dim]`, rows may be strided.
//!
//! Roofline: 8 bytes and about 20 flops (an exponential) per element; bound by memory bandwidth.

pub(crate) mod cuda;
pub(crate) mod reference;

use terrace_device::ViewMut;

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointwise {
    Silu,
    Relu,
    /// By the error function, as PyTorch's `gelu` is unless asked otherwise.
    Gelu,
}

pub(crate) fn activate(ctx: &CpuCtx, x: ViewMut<'_>, kind: Pointwise) {
    ctx.write_rows(x, |_, x| ctx.simd.run(Activate { x, kind }));
}

struct Activate<'a> {
    x: &'a mut [f32],
    kind: Pointwise,
}

impl Kernel for Activate<'_> {
    fn reference(self) {
        reference::activate(self.x, self.kind);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        match self.kind {
            Pointwise::Silu => {
                for x in self.x.chunks_mut(L::COUNT) {
                    lanes.write(silu(lanes, lanes.read(x)), x);
                }
            }
            Pointwise::Relu => {
                for x in self.x.chunks_mut(L::COUNT) {
                    // In this order a NaN stays one.
                    lanes.write(lanes.max(lanes.splat(0.0), lanes.read(x)), x);
                }
            }
            Pointwise::Gelu => self.reference(),
        }
    }
}

/// `x / (1 + exp(-x))`
#[inline(always)]
pub(crate) fn silu<L: Lanes>(lanes: L, x: L::Vector) -> L::Vector {
    let power = lanes.exp(lanes.sub(lanes.splat(0.0), x));
    lanes.div(x, lanes.add(lanes.splat(1.0), power))
}

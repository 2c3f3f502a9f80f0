//! A function of each number: what products and sums of click-through models end with.
//!
//! x: act `[rows, dim]` · out: act or f32 `[rows, dim]`; rows of both may be strided.
//!
//! Roofline: 8 bytes and up to 20 flops (an exponential) per element; bound by memory bandwidth.

pub(crate) mod reference;

use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CtrActivation {
    Relu,
    Sigmoid,
    /// `x` above 0, `alpha * (exp(x) - 1)` below.
    Elu {
        alpha: f32,
    },
}

pub(crate) fn activate_rows(ctx: &CpuCtx, x: View<'_>, kind: CtrActivation, out: ViewMut<'_>) {
    assert_eq!(x.dims::<2>(), out.dims::<2>(), "out of activate_rows");
    ctx.write_rows::<f32>(out, |row, out| {
        out.copy_from_slice(x.row(row));
        ctx.simd.run(Activate { x: out, kind });
    });
}

/// In place.
pub(crate) struct Activate<'a> {
    pub(crate) x: &'a mut [f32],
    pub(crate) kind: CtrActivation,
}

impl Kernel for Activate<'_> {
    fn reference(self) {
        reference::activate(self.x, self.kind);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let Activate { x, kind } = self;
        match kind {
            CtrActivation::Relu => each(lanes, x, |x| lanes.max(lanes.splat(0.0), x)),
            CtrActivation::Sigmoid => each(lanes, x, |x| {
                let one = lanes.splat(1.0);
                lanes.div(one, lanes.add(one, lanes.exp(lanes.sub(lanes.splat(0.0), x))))
            }),
            CtrActivation::Elu { alpha } => each(lanes, x, |x| {
                let zero = lanes.splat(0.0);
                let below = lanes.sub(lanes.exp(lanes.min(zero, x)), lanes.splat(1.0));
                lanes.mul_add(below, lanes.splat(alpha), lanes.max(zero, x))
            }),
        }
    }
}

/// Functions that take the larger or smaller of two have the number second, so that a NaN stays
/// one.
#[inline(always)]
fn each<L: Lanes>(lanes: L, x: &mut [f32], f: impl Fn(L::Vector) -> L::Vector) {
    for x in x.chunks_mut(L::COUNT) {
        lanes.write(f(lanes.read(x)), x);
    }
}

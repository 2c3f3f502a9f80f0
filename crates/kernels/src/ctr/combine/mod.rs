//! Several tensors of one shape, added, subtracted or multiplied number by number.
//!
//! inputs: act `[rows, dim]` each, two or more · out: act or f32 `[rows, dim]`, through a function
//! of each number if one is given
//!
//! Roofline: 4 bytes and one flop per element of each input; bound by memory bandwidth.

pub(crate) mod reference;

use terrace_device::{View, ViewMut};

use super::activation::{Activate, CtrActivation};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    Add,
    /// All others from the first.
    Subtract,
    Multiply,
}

#[derive(Clone, Copy)]
pub struct CombineArgs<'a> {
    pub kind: Combination,
    pub inputs: &'a [View<'a>],
    pub activation: Option<CtrActivation>,
}

pub(crate) fn combine(ctx: &CpuCtx, args: &CombineArgs<'_>, out: ViewMut<'_>) {
    let CombineArgs { kind, inputs, activation } = *args;
    for input in inputs {
        assert_eq!(input.dims::<2>(), out.dims::<2>(), "inputs of combine");
    }
    let (first, others) = inputs.split_first().expect("there are inputs");
    ctx.write_rows::<f32>(out, |row, out| {
        out.copy_from_slice(first.row(row));
        for other in others {
            ctx.simd.run(Combine { kind, x: other.row(row), out });
        }
        if let Some(kind) = activation {
            ctx.simd.run(Activate { x: out, kind });
        }
    });
}

/// One more input into `out`.
struct Combine<'a> {
    kind: Combination,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Combine<'_> {
    fn reference(self) {
        reference::combine(self.kind, self.x, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let Combine { kind, x, out } = self;
        match kind {
            Combination::Add => each(lanes, x, out, |out, x| lanes.add(out, x)),
            Combination::Subtract => each(lanes, x, out, |out, x| lanes.sub(out, x)),
            Combination::Multiply => each(lanes, x, out, |out, x| lanes.mul(out, x)),
        }
    }
}

#[inline(always)]
fn each<L: Lanes>(
    lanes: L,
    x: &[f32],
    out: &mut [f32],
    f: impl Fn(L::Vector, L::Vector) -> L::Vector,
) {
    for (out, x) in out.chunks_mut(L::COUNT).zip(x.chunks(L::COUNT)) {
        lanes.write(f(lanes.read(out), lanes.read(x)), out);
    }
}

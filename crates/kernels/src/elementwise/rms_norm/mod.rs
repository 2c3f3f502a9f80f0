//! Root-mean-square normalisation: `weight * x / sqrt(mean(x²) + eps)` for each row.
//!
//! x, out: f32 `[rows, dim]` or `[rows, heads, dim]` (each head is a row) · weight: f32 `[dim]`
//!
//! Roofline: 8 bytes (16 with the sum) and 4 flops per element; bound by cache bandwidth.

mod backward;
mod check;
pub(crate) mod cuda;
pub(crate) mod cuda_gradients;
pub(crate) mod reference;
mod simd;

pub use backward::RmsNormGradients;
pub(crate) use backward::rms_norm_gradients;
use terrace_device::{SharedRows, View, ViewMut};

use self::check::check;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

pub(crate) fn rms_norm(ctx: &CpuCtx, x: View<'_>, weight: View<'_>, eps: f32, out: ViewMut<'_>) {
    assert_eq!(x.shape(), out.shape(), "out of rms_norm");
    check(x, weight);
    let weight = weight.as_slice();
    ctx.write_rows(out, |row, out| {
        ctx.simd.run(Norm { x: x.row(row), weight, eps, out });
    });
}

pub(crate) fn rms_norm_heads(ctx: &CpuCtx, x: ViewMut<'_>, weight: View<'_>, eps: f32) {
    check(x.as_view(), weight);
    let weight = weight.as_slice();
    ctx.write_rows(x, |_, x| ctx.simd.run(NormInPlace { x, weight, eps }));
}

pub(crate) fn add_rms_norm(
    ctx: &CpuCtx,
    mut sum: ViewMut<'_>,
    delta: View<'_>,
    weight: View<'_>,
    eps: f32,
    mut out: ViewMut<'_>,
) {
    let [rows, dim] = sum.dims();
    assert_eq!(delta.dims(), [rows, dim], "delta of add_rms_norm");
    assert_eq!(out.dims(), [rows, dim], "out of add_rms_norm");
    assert_eq!(weight.dims(), [dim], "weight of add_rms_norm");
    let weight = weight.as_slice::<f32>();
    let sum = SharedRows::<f32>::new(&mut sum);
    let out = SharedRows::<f32>::new(&mut out);
    ctx.for_rows(rows, dim, &|row| {
        // SAFETY: each row is one task's.
        let (sum, out) = unsafe { (sum.row_mut(row), out.row_mut(row)) };
        ctx.simd.run(Add { sum, delta: delta.row(row) });
        ctx.simd.run(Norm { x: sum, weight, eps, out });
    });
}

/// `sum += delta`
pub(crate) fn add(ctx: &CpuCtx, sum: ViewMut<'_>, delta: View<'_>) {
    assert_eq!(sum.shape(), delta.shape(), "delta of add");
    ctx.write_rows(sum, |row, sum| ctx.simd.run(Add { sum, delta: delta.row(row) }));
}

/// One token: as many rows of the weight's length as `x` holds.
struct Norm<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    out: &'a mut [f32],
}

impl Kernel for Norm<'_> {
    fn reference(self) {
        let dim = self.weight.len();
        for (x, out) in self.x.chunks_exact(dim).zip(self.out.chunks_exact_mut(dim)) {
            reference::norm(x, self.weight, self.eps, out);
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let dim = self.weight.len();
        for (x, out) in self.x.chunks_exact(dim).zip(self.out.chunks_exact_mut(dim)) {
            simd::norm(lanes, x, self.weight, self.eps, out);
        }
    }
}

struct NormInPlace<'a> {
    x: &'a mut [f32],
    weight: &'a [f32],
    eps: f32,
}

impl Kernel for NormInPlace<'_> {
    fn reference(self) {
        for x in self.x.chunks_exact_mut(self.weight.len()) {
            reference::norm_in_place(x, self.weight, self.eps);
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        for x in self.x.chunks_exact_mut(self.weight.len()) {
            simd::norm_in_place(lanes, x, self.weight, self.eps);
        }
    }
}

struct Add<'a> {
    sum: &'a mut [f32],
    delta: &'a [f32],
}

impl Kernel for Add<'_> {
    fn reference(self) {
        reference::add(self.sum, self.delta);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        simd::add(lanes, self.sum, self.delta);
    }
}

//! Layer normalisation of each row: `(x - mean) / sqrt(variance + eps) * weight + bias`.
//!
//! x: f32 `[rows, dim]` · delta: act `[rows, dim]` · weight, bias: f32 `[dim]`, or none of them ·
//! out: act `[rows, dim]`
//!
//! Roofline: 8 bytes (16 with the sum) and 7 flops per element; bound by cache bandwidth. On a GPU
//! in bf16 6 bytes (12 with the sum); bound by memory.

pub(crate) mod cuda;
pub(crate) mod reference;
pub(crate) mod simd;

use terrace_device::{SharedRows, View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::linear::vector::Vector;

/// What a normalised row is multiplied by, and what is added then.
#[derive(Clone, Copy)]
pub struct Affine<'a> {
    /// f32 `[dim]`
    pub weight: &'a Vector,
    /// f32 `[dim]`
    pub bias: &'a Vector,
}

/// The numbers of an [`Affine`] on the host.
#[derive(Clone, Copy)]
pub(crate) struct AffineRow<'a> {
    pub(crate) weight: &'a [f32],
    pub(crate) bias: &'a [f32],
}

impl<'a> Affine<'a> {
    pub(crate) fn row(&self) -> AffineRow<'a> {
        AffineRow { weight: self.weight.view().as_slice(), bias: self.bias.view().as_slice() }
    }
}

pub(crate) fn layer_norm(
    ctx: &CpuCtx,
    x: View<'_>,
    affine: Option<AffineRow<'_>>,
    eps: f32,
    out: ViewMut<'_>,
) {
    assert_eq!(x.shape(), out.shape(), "out of layer_norm");
    check(x, affine);
    ctx.write_rows(out, |row, out| ctx.simd.run(Norm { x: x.row(row), affine, eps, out }));
}

/// `sum += delta`, and the norm of that.
pub(crate) fn add_layer_norm(
    ctx: &CpuCtx,
    mut sum: ViewMut<'_>,
    delta: View<'_>,
    affine: Option<AffineRow<'_>>,
    eps: f32,
    mut out: ViewMut<'_>,
) {
    let [rows, dim] = sum.dims();
    assert_eq!(delta.dims(), [rows, dim], "delta of add_layer_norm");
    assert_eq!(out.dims(), [rows, dim], "out of add_layer_norm");
    check(sum.as_view(), affine);
    let (sum, out) = (SharedRows::<f32>::new(&mut sum), SharedRows::<f32>::new(&mut out));
    ctx.for_rows(rows, dim, &|row| {
        // SAFETY: each row is one task's.
        let (sum, out) = unsafe { (sum.row_mut(row), out.row_mut(row)) };
        ctx.simd.run(AddRow { sum, delta: delta.row(row) });
        ctx.simd.run(Norm { x: sum, affine, eps, out });
    });
}

/// `sum[rows[i]] += delta[i]`, or of all rows · sum: f32 `[_, dim]` · delta: act `[_, dim]`
pub(crate) fn add_rows(
    ctx: &CpuCtx,
    mut sum: ViewMut<'_>,
    rows: Option<View<'_>>,
    delta: View<'_>,
) {
    let ([count, dim], [all, sum_dim]) = (delta.dims(), sum.dims());
    let found = rows.map_or(all, |rows| rows.shape().count());
    assert_eq!((found, sum_dim), (count, dim), "rows of add_rows");
    let rows = rows.map(|rows| rows.as_slice::<i32>());
    if let Some(rows) = rows {
        // Else two tasks would write one row.
        assert!(rows.is_sorted_by(|a, b| a < b), "rows of add_rows ascend");
    }
    let sum = SharedRows::<f32>::new(&mut sum);
    ctx.for_rows(count, dim, &|row| {
        let to = rows.map_or(row, |rows| rows[row] as usize);
        // SAFETY: each row is one task's.
        let sum = unsafe { sum.row_mut(to) };
        ctx.simd.run(AddRow { sum, delta: delta.row(row) });
    });
}

fn check(x: View<'_>, affine: Option<AffineRow<'_>>) {
    let [_, dim] = x.dims();
    if let Some(AffineRow { weight, bias }) = affine {
        assert_eq!([weight.len(), bias.len()], [dim; 2], "weight and bias of layer_norm");
    }
}

struct Norm<'a> {
    x: &'a [f32],
    affine: Option<AffineRow<'a>>,
    eps: f32,
    out: &'a mut [f32],
}

impl Kernel for Norm<'_> {
    fn reference(self) {
        reference::norm(self.x, self.affine, self.eps, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        simd::norm(lanes, self.x, self.affine, self.eps, self.out);
    }
}

struct AddRow<'a> {
    sum: &'a mut [f32],
    delta: &'a [f32],
}

impl Kernel for AddRow<'_> {
    fn reference(self) {
        reference::add(self.sum, self.delta);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        for (sum, delta) in self.sum.chunks_mut(L::COUNT).zip(self.delta.chunks(L::COUNT)) {
            lanes.write(lanes.add(lanes.read(sum), lanes.read(delta)), sum);
        }
    }
}

//! What HSTU does with the result of attention before the output projection: `u * norm(attention)`,
//! where u may go through SiLU first.
//!
//! attention: act `[rows, dim]` · u: act `[rows, dim]`, strided · out: act `[rows, dim]`, or
//! `[rows, 3 dim]` where the layer concatenates.
//!
//! Roofline: 12 bytes and 9 flops per element; bound by memory bandwidth.

pub(crate) mod cuda;
pub(crate) mod reference;
mod simd;

use terrace_device::{View, ViewMut};

use super::layer_norm::{Affine, AffineRow};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

/// What lies side by side in a row of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatedForm {
    /// `u * norm(a)`
    Gated,
    /// `u`, `a`, `u * norm(a)`
    WithAttention,
    /// `u`, `norm(a)`, `u * norm(a)`
    WithNormed,
}

/// What one mean and one variance are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormExtent {
    /// All heads of a row; weights are one for each number.
    AllHeads,
    /// Each head, of so many in a row; weights are one for each head.
    EachHead { heads: usize },
}

#[derive(Clone, Copy)]
pub struct GatedNormArgs<'a> {
    pub attention: View<'a>,
    pub u: View<'a>,
    /// i32: the rows that are picked, one for each of the result; all where there is none. On a
    /// GPU a negative one is left out.
    pub rows: Option<View<'a>>,
    /// Whether u goes through SiLU first.
    pub activates: bool,
    pub affine: Option<Affine<'a>>,
    pub eps: f32,
    pub form: GatedForm,
    pub extent: NormExtent,
}

impl GatedForm {
    /// Numbers of a row of the result, for one of attention's.
    pub fn parts(self) -> usize {
        match self {
            GatedForm::Gated => 1,
            GatedForm::WithAttention | GatedForm::WithNormed => 3,
        }
    }
}

impl GatedNormArgs<'_> {
    pub(crate) fn check(&self, out: &ViewMut<'_>) {
        let [rows, dim] = self.attention.dims();
        assert_eq!(self.u.dims(), [rows, dim], "u of gated_norm");
        let picked = self.rows.map_or(rows, |rows| rows.shape().count());
        assert_eq!(out.dims(), [picked, self.form.parts() * dim], "out of gated_norm");
        let weights = match self.extent {
            NormExtent::AllHeads => dim,
            NormExtent::EachHead { heads } => {
                assert!(dim.is_multiple_of(heads), "{dim} numbers in {heads} heads");
                heads
            }
        };
        if let Some(Affine { weight, bias }) = self.affine {
            let counts = [weight, bias].map(|vector| vector.view().shape().count());
            assert_eq!(counts, [weights; 2], "weights of gated_norm");
        }
    }
}

pub(crate) fn gated_norm(ctx: &CpuCtx, args: &GatedNormArgs<'_>, out: ViewMut<'_>) {
    args.check(&out);
    let affine = args.affine.map(|affine| affine.row());
    let GatedNormArgs { attention, u, rows, activates, eps, form, extent, .. } = *args;
    ctx.write_rows(out, |row, out| {
        let row = rows.map_or(row, |rows| rows.as_slice::<i32>()[row] as usize);
        let rows = Rows { attention: attention.row(row), u: u.row(row), out };
        let rule = NormRule { activates, affine, eps, form, extent };
        ctx.simd.run(GatedNorm { rows, rule });
    });
}

pub(crate) struct Rows<'a> {
    pub(crate) attention: &'a [f32],
    pub(crate) u: &'a [f32],
    pub(crate) out: &'a mut [f32],
}

/// What is computed of a row.
#[derive(Clone, Copy)]
pub(crate) struct NormRule<'a> {
    pub(crate) activates: bool,
    pub(crate) affine: Option<AffineRow<'a>>,
    pub(crate) eps: f32,
    pub(crate) form: GatedForm,
    pub(crate) extent: NormExtent,
}

struct GatedNorm<'a> {
    rows: Rows<'a>,
    rule: NormRule<'a>,
}

impl Kernel for GatedNorm<'_> {
    fn reference(self) {
        reference::gated_norm(self.rows, &self.rule);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        match self.rule.extent {
            NormExtent::AllHeads => simd::gated_norm(lanes, self.rows, &self.rule),
            NormExtent::EachHead { .. } => self.reference(),
        }
    }
}

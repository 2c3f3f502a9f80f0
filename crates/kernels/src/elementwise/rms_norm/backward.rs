//! Gradients of a root-mean-square norm; both add to what is there.
//!
//! The input's go row by row; the weight's sum over all rows in order, a few columns a task, with
//! each row's factor kept from the first pass.

use terrace_device::{SharedRows, View, ViewMut};

use super::check::check;
use super::{reference, simd};
use crate::cpu::cpu_ctx::{CpuCtx, OP_FLOATS};
use crate::cpu::lanes::{Kernel, Lanes};

/// All f32; rows are as the forward op has them.
pub struct RmsNormGradients<'a> {
    /// `[rows, dim]` or `[rows, heads, dim]`
    pub x: View<'a>,
    /// `[dim]`
    pub weight: View<'a>,
    pub eps: f32,
    /// As `x`.
    pub d_out: View<'a>,
    /// As `x`.
    pub d_x: ViewMut<'a>,
    /// `[dim]`; `None` where the weight is not trained.
    pub d_weight: Option<ViewMut<'a>>,
}

/// Columns of the weight's gradient in a task.
const STRIP: usize = 64;

pub(crate) fn rms_norm_gradients(ctx: &CpuCtx, args: RmsNormGradients<'_>) {
    let RmsNormGradients { x, weight, eps, d_out, mut d_x, d_weight } = args;
    check(x, weight);
    assert_eq!(d_out.shape(), x.shape(), "d_out of rms_norm_gradients");
    assert_eq!(d_x.shape(), x.shape(), "d_x of rms_norm_gradients");
    let weight = weight.as_slice::<f32>();
    let (tokens, dim) = (x.shape().dims()[0], weight.len());
    let heads = x.shape().count() / (tokens * dim).max(1);
    assert!(tokens * heads <= OP_FLOATS, "{} rows of rms_norm_gradients", tokens * heads);
    ctx.with_op_memory(|memory| {
        let factors = &mut memory[..tokens * heads];
        {
            let mut factors = ViewMut::of(&mut *factors, [tokens, heads]);
            let factors = SharedRows::<f32>::new(&mut factors);
            let d_x = SharedRows::<f32>::new(&mut d_x);
            ctx.for_rows(tokens, heads * dim, &|token| {
                // SAFETY: each row is one task's.
                let (d_x, factors) = unsafe { (d_x.row_mut(token), factors.row_mut(token)) };
                let (x, d_out) = (x.row(token), d_out.row(token));
                ctx.simd.run(Token { x, weight, eps, d_out, d_x, factors });
            });
        }
        if let Some(d_weight) = d_weight {
            weight_gradient(ctx, [x, d_out], factors, d_weight);
        }
    });
}

fn weight_gradient(
    ctx: &CpuCtx,
    [x, d_out]: [View<'_>; 2],
    factors: &[f32],
    d_weight: ViewMut<'_>,
) {
    let [dim] = d_weight.dims();
    let tokens = x.shape().dims()[0];
    let heads = factors.len() / tokens.max(1);
    let mut d_weight = d_weight.reshape([1, dim]);
    let d_weight = SharedRows::<f32>::new(&mut d_weight);
    ctx.pool.run(dim.div_ceil(STRIP), &|_, strip| {
        let columns = strip * STRIP..dim.min((strip + 1) * STRIP);
        // SAFETY: each strip is one task's.
        let sums = unsafe { d_weight.part_mut(0, columns.clone()) };
        for token in 0..tokens {
            let (x, d_out) = (x.row::<f32>(token), d_out.row::<f32>(token));
            for head in 0..heads {
                let at = head * dim + columns.start..head * dim + columns.end;
                let factor = factors[token * heads + head];
                let products = x[at.clone()].iter().zip(&d_out[at]).map(|(x, d)| x * d * factor);
                sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
            }
        }
    });
}

/// One token: as many rows of the weight's length as `x` holds.
struct Token<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    d_out: &'a [f32],
    d_x: &'a mut [f32],
    /// One for each row.
    factors: &'a mut [f32],
}

impl Kernel for Token<'_> {
    fn reference(self) {
        let Token { x, weight, eps, d_out, d_x, factors } = self;
        let dim = weight.len();
        let rows = x.chunks_exact(dim).zip(d_out.chunks_exact(dim));
        let outs = d_x.chunks_exact_mut(dim).zip(factors);
        for ((x, d_out), (d_x, factor)) in rows.zip(outs) {
            reference::gradients(x, weight, eps, d_out, d_x, None);
            *factor = reference::factor(x, eps);
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let Token { x, weight, eps, d_out, d_x, factors } = self;
        let dim = weight.len();
        let rows = x.chunks_exact(dim).zip(d_out.chunks_exact(dim));
        let outs = d_x.chunks_exact_mut(dim).zip(factors);
        for ((x, d_out), (d_x, factor)) in rows.zip(outs) {
            *factor = simd::gradient(lanes, x, weight, eps, d_out, d_x);
        }
    }
}

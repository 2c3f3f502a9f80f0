//! Cross entropy of a head's logits, in blocks of the vocabulary: logits are never there whole.
//!
//! x, d_x: f32 `[rows, hidden]` · head: `[vocab, hidden]` · targets: i32 `[rows]`, negative for
//! none · factors, what each row's loss counts in the gradient: f32 `[rows]` · losses: f32 `[rows]`
//!
//! A first pass over the blocks finds each row's log-sum-exp and the logit of its target; the
//! second computes each block again, makes it the logits' gradient where it lies, and takes it on
//! to the input and to what is trained.
//!
//! Roofline: `8 rows hidden` flops a token of the vocabulary, of which two thirds would do if
//! logits were kept; `12 hidden` at most where the head is trained.

mod block;
pub(crate) mod cuda;
mod cuda_head_loss;
pub(crate) mod reference;

pub(crate) use cuda_head_loss::head_loss as head_loss_on_cuda;
use std::ops::Range;

use terrace_device::{View, ViewMut};

use self::block::{Found, note_block, to_gradient};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::linear::backward::weight_gradient;
use crate::linear::in_training::{input_gradient, project};
use crate::linear::linear::Linear;
use crate::linear::lora::{self, LoraBranch, LoraGradients};

/// Gradients are added to; `None` where nobody asks for them. A branch has them only with `d_x`.
pub struct HeadLossArgs<'a> {
    pub x: View<'a>,
    pub head: &'a Linear,
    pub lora: Option<HeadLora<'a>>,
    pub targets: View<'a>,
    pub factors: View<'a>,
    /// Memory for a block of logits: f32 `[rows, block]`, of any width.
    pub logits: ViewMut<'a>,
    /// Memory of each row: f32 `[rows, 3]`.
    pub found: ViewMut<'a>,
    pub losses: ViewMut<'a>,
    pub d_x: Option<ViewMut<'a>>,
    /// f32 `[vocab, hidden]`
    pub d_head: Option<ViewMut<'a>>,
}

/// The head's branch, with the memory it needs and its gradients.
pub struct HeadLora<'a> {
    pub branch: LoraBranch<'a>,
    /// f32 `[rows, rank]`, as `d_inner`.
    pub inner: ViewMut<'a>,
    pub d_inner: ViewMut<'a>,
    /// Of the branch's two matrices: f32 `[rank, hidden]` and `[vocab, rank]`.
    pub d_matrices: Option<[ViewMut<'a>; 2]>,
}

pub(crate) fn head_loss(ctx: &CpuCtx, args: HeadLossArgs<'_>) {
    let HeadLossArgs { x, head, mut lora, targets, factors, mut logits, .. } = args;
    let HeadLossArgs { mut found, losses, mut d_x, mut d_head, .. } = args;
    let ([rows, hidden], [_, block]) = (x.dims(), logits.dims());
    assert_eq!(head.columns(), hidden, "columns of a head");
    assert_eq!(logits.dims(), [rows, block], "logits of head_loss");
    assert_eq!([targets.dims(), factors.dims(), losses.dims()], [[rows]; 3], "rows of head_loss");
    assert_eq!(found.dims(), [rows, Found::NUMBERS], "found of head_loss");
    let (vocab, targets) = (head.rows(), targets.as_slice::<i32>());
    let factors = factors.as_slice::<f32>();
    let known = targets.iter().all(|target| *target < vocab as i32);
    assert!(known, "a target is not one of {vocab} tokens");
    let blocks = || (0..vocab).step_by(block).map(|start| start..vocab.min(start + block));
    Found::clear(found.reborrow());
    for ids in blocks() {
        let [mut part, _] = logits.reborrow().split_columns([ids.len(), block - ids.len()]);
        compute_logits(ctx, x, &head.part(ids.clone()), lora.as_mut(), &ids, part.reborrow());
        note_block(ctx, part.as_view(), &ids, targets, found.reborrow());
    }
    Found::losses(found.as_view(), targets, losses);
    if d_x.is_none() && d_head.is_none() {
        return;
    }
    for ids in blocks() {
        let [mut part, _] = logits.reborrow().split_columns([ids.len(), block - ids.len()]);
        let weights = head.part(ids.clone());
        compute_logits(ctx, x, &weights, lora.as_mut(), &ids, part.reborrow());
        to_gradient(ctx, part.reborrow(), &ids, targets, found.as_view(), factors);
        let d_logits = part.as_view();
        if let Some(d_head) = &mut d_head {
            weight_gradient(ctx, d_logits, x, 1.0, d_head.reborrow().rows(ids.clone()));
        }
        if let Some(d_x) = &mut d_x {
            input_gradient(ctx, d_logits, &weights, d_x.reborrow());
            if let Some(lora) = &mut lora {
                lora.add_gradients(ctx, x, d_logits, &ids, d_x.reborrow());
            }
        }
    }
}

/// The logits of some tokens of the vocabulary; `weights` are their rows of the head.
fn compute_logits(
    ctx: &CpuCtx,
    x: View<'_>,
    weights: &Linear,
    lora: Option<&mut HeadLora<'_>>,
    ids: &Range<usize>,
    mut logits: ViewMut<'_>,
) {
    project(ctx, x, weights, logits.reborrow());
    if let Some(lora) = lora {
        let b = lora.branch.b.part(ids.clone());
        let branch = LoraBranch { b: &b, ..lora.branch };
        lora::add_branch(ctx, x, branch, lora.inner.reborrow(), logits);
    }
}

impl HeadLora<'_> {
    fn add_gradients(
        &mut self,
        ctx: &CpuCtx,
        x: View<'_>,
        d_out: View<'_>,
        ids: &Range<usize>,
        d_x: ViewMut<'_>,
    ) {
        let b = self.branch.b.part(ids.clone());
        let branch = LoraBranch { b: &b, ..self.branch };
        let Some([d_a, d_b]) = &mut self.d_matrices else { return };
        let args = LoraGradients {
            x,
            inner: self.inner.as_view(),
            d_out,
            d_inner: self.d_inner.reborrow(),
            d_x,
            d_a: d_a.reborrow(),
            d_b: d_b.reborrow().rows(ids.clone()),
        };
        lora::lora_gradients(ctx, branch, args);
    }
}

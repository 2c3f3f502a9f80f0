//! A head's loss on a GPU: the blocks of the CPU's op, each a few kernels.

use std::ops::Range;

use terrace_device::{View, ViewMut};

use super::{HeadLora, HeadLossArgs};
use crate::cuda::CudaTune;
use crate::error::Error;
use crate::linear::lora::{LoraBranch, LoraGradients};
use crate::linear::matmul::device_matrix::DeviceMatrix;

/// x: act `[rows, hidden]` · targets: i32, factors: f32 `[rows]`, on the device too · the head's
/// branch has inner rows of act. Targets are checked by the caller, who has them on the host.
pub(crate) fn head_loss(tune: &CudaTune<'_>, args: HeadLossArgs<'_>) -> Result<(), Error> {
    let HeadLossArgs { x, head, mut lora, targets, factors, mut logits, .. } = args;
    let HeadLossArgs { mut found, losses, mut d_x, mut d_head, .. } = args;
    let ([rows, hidden], [_, block]) = (x.dims(), logits.dims());
    assert_eq!(head.columns(), hidden, "columns of a head");
    assert_eq!(logits.dims(), [rows, block], "logits of head_loss");
    assert_eq!([targets.dims(), factors.dims(), losses.dims()], [[rows]; 3], "rows of head_loss");
    let (vocab, matrix) = (head.rows(), head.cuda().only());
    let kernels = &tune.kernels.rows.cross_entropy;
    let blocks = || (0..vocab).step_by(block).map(|start| start..vocab.min(start + block));
    kernels.clear(found.reborrow());
    for ids in blocks() {
        let [mut part, _] = logits.reborrow().split_columns([ids.len(), block - ids.len()]);
        compute_logits(tune, x, matrix, lora.as_mut(), &ids, part.reborrow());
        kernels.note_block(part.as_view(), &ids, targets, found.reborrow());
    }
    kernels.losses(found.as_view(), targets, losses);
    if d_x.is_none() && d_head.is_none() {
        return Ok(());
    }
    for ids in blocks() {
        let [mut part, _] = logits.reborrow().split_columns([ids.len(), block - ids.len()]);
        compute_logits(tune, x, matrix, lora.as_mut(), &ids, part.reborrow());
        kernels.to_gradient(part.reborrow(), &ids, targets, found.as_view(), factors);
        let d_logits = tune.rounded(part.as_view())?;
        let d_logits = d_logits.view();
        if let Some(d_head) = &mut d_head {
            let d_rows = d_head.reborrow().rows(ids.clone());
            tune.weight_gradient(d_logits, x, 1.0, d_rows)?;
        }
        if let Some(d_x) = &mut d_x {
            tune.through_rows(d_logits, matrix, ids.clone(), d_x.reborrow());
            if let Some(lora) = &mut lora {
                add_branch_gradients(tune, lora, x, d_logits, &ids, d_x.reborrow());
            }
        }
    }
    Ok(())
}

fn compute_logits(
    tune: &CudaTune<'_>,
    x: View<'_>,
    matrix: &DeviceMatrix,
    lora: Option<&mut HeadLora<'_>>,
    ids: &Range<usize>,
    mut logits: ViewMut<'_>,
) {
    tune.project_rows(x, matrix, ids, logits.reborrow());
    if let Some(lora) = lora {
        tune.add_branch_rows(x, lora.branch, ids, lora.inner.reborrow(), logits);
    }
}

fn add_branch_gradients(
    tune: &CudaTune<'_>,
    lora: &mut HeadLora<'_>,
    x: View<'_>,
    d_out: View<'_>,
    ids: &Range<usize>,
    d_x: ViewMut<'_>,
) {
    let branch: LoraBranch<'_> = lora.branch;
    let Some([d_a, d_b]) = &mut lora.d_matrices else { return };
    let args = LoraGradients {
        x,
        inner: lora.inner.as_view(),
        d_out,
        d_inner: lora.d_inner.reborrow(),
        d_x,
        d_a: d_a.reborrow(),
        d_b: d_b.reborrow().rows(ids.clone()),
    };
    tune.branch_gradients(branch, ids, args);
}

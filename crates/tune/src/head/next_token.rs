//! Next tokens over the whole vocabulary.

use std::ops::Range;

use terrace_kernels::{HeadLora, HeadLossArgs, RmsNormGradients};

use super::head_pass::{HeadGradients, HeadPass};
use crate::checkpoints::StoredRows;
use crate::error::Error;
use crate::model::{Gradients, MatrixParameter, TunedModel};
use crate::tensor::Tensor;

pub(super) struct NextTokenPass<'a> {
    pub pass: HeadPass<'a>,
}

impl NextTokenPass<'_> {
    /// outputs: of the positions with targets.
    pub fn run(
        &self,
        outputs: &StoredRows,
        mut gradients: Option<HeadGradients<'_>>,
    ) -> Result<f64, Error> {
        let batch = self.pass.batch;
        let factors = self.pass.loss_mean.target_factors(batch);
        let targets = batch.target_tokens();
        let step = self.pass.step();
        let mut loss = 0.0;
        for start in (0..targets).step_by(step) {
            let range = start..targets.min(start + step);
            let x = outputs.read(&self.pass.ops, &range)?;
            let wanted = gradients.as_mut().map(|wanted| &mut *wanted.gradients);
            let (sum, d_x) = self.run_rows(&x, &range, &factors, wanted)?;
            loss += sum;
            if let (Some(d_x), Some(HeadGradients { d_outputs, .. })) = (d_x, &mut gradients) {
                let first = batch.tokens() - targets;
                let positions = first + range.start..first + range.end;
                d_outputs.write(&self.pass.ops, &positions, &d_x)?;
            }
        }
        Ok(loss)
    }

    /// x: f32 `[seqs * range.len(), hidden]`. Gives the loss, and the gradient of x if gradients
    /// are wanted.
    fn run_rows(
        &self,
        x: &Tensor,
        range: &Range<usize>,
        factors: &[f32],
        mut gradients: Option<&mut Gradients>,
    ) -> Result<(f64, Option<Tensor>), Error> {
        let HeadPass { ops, model, .. } = self.pass;
        let TunedModel { final_norm, norm_eps, .. } = model;
        let weight = final_norm.tensor.view();
        let mut normed = Tensor::unset_act(&ops, "normed outputs", x.shape())?;
        ops.rms_norm(x.view(), weight, *norm_eps, normed.view_mut());
        let targets = self.of_range(self.pass.batch.targets, range);
        let factors = self.of_range(factors, range);
        let (losses, d_normed) =
            self.losses(&normed, &targets, &factors, gradients.as_deref_mut())?;
        let losses = losses.numbers(&ops)?;
        let sum = losses
            .iter()
            .zip(&factors)
            .map(|(loss, factor)| f64::from(*loss) * f64::from(*factor))
            .sum();
        let (Some(d_normed), Some(gradients)) = (d_normed, gradients) else {
            return Ok((sum, None));
        };
        let mut d_x = Tensor::zeros(&ops, "gradients of outputs", x.shape())?;
        ops.rms_norm_gradients(RmsNormGradients {
            x: x.view(),
            weight,
            eps: *norm_eps,
            d_out: d_normed.view(),
            d_x: d_x.view_mut(),
            d_weight: final_norm.id.map(|id| gradients.view_mut(id)),
        });
        Ok((sum, Some(d_x)))
    }

    /// Losses of rows, and the gradient of what the head is given.
    fn losses(
        &self,
        x: &Tensor,
        targets: &[i32],
        factors: &[f32],
        gradients: Option<&mut Gradients>,
    ) -> Result<(Tensor, Option<Tensor>), Error> {
        let HeadPass { ops, model, logits_most, .. } = self.pass;
        let rows = targets.len();
        let MatrixParameter { linear: head, id } = match &model.head {
            Some(head) => &head.base,
            None => &model.embed,
        };
        let block = whole_block((logits_most / rows).clamp(1, head.rows()));
        let mut logits = Tensor::unset(&ops, "logits", [rows, block])?;
        let mut found = Tensor::zeros(&ops, "sums of logits", [rows, 3])?;
        let mut losses = Tensor::unset(&ops, "losses", [rows])?;
        let mut d_x = match &gradients {
            Some(_) => Some(Tensor::zeros(&ops, "gradients of outputs", x.shape())?),
            None => None,
        };
        let lora = model.head.as_ref().and_then(|head| head.lora.as_ref());
        let rank = lora.map_or(1, |lora| lora.rank());
        let mut inner = Tensor::unset_act(&ops, "inner rows of branches", [rows, rank])?;
        let mut d_inner = Tensor::unset_act(&ops, "gradients of branches", [rows, rank])?;
        let targets = Tensor::of(&ops, "targets", targets, [rows])?;
        let factors = Tensor::of(&ops, "factors of targets", factors, [rows])?;
        // A head has a weight that is trained, or a branch that is.
        let mut d_head = None;
        let mut head_lora = None;
        if let Some(lora) = lora {
            let ids = [&lora.a, &lora.b].map(|matrix| matrix.id.expect("a branch is trained"));
            head_lora = Some(HeadLora {
                branch: lora.branch(),
                inner: inner.view_mut(),
                d_inner: d_inner.view_mut(),
                d_matrices: gradients.map(|gradients| gradients.pair_mut(ids)),
            });
        } else if let (Some(id), Some(gradients)) = (id, gradients) {
            d_head = Some(gradients.view_mut(*id));
        }
        ops.head_loss(HeadLossArgs {
            x: x.view(),
            head,
            lora: head_lora,
            targets: targets.view(),
            factors: factors.view(),
            logits: logits.view_mut(),
            found: found.view_mut(),
            losses: losses.view_mut(),
            d_x: d_x.as_mut().map(Tensor::view_mut),
            d_head,
        })?;
        Ok((losses, d_x))
    }

    /// Some positions of `[seqs, targets]`.
    fn of_range<T: Copy>(&self, numbers: &[T], range: &Range<usize>) -> Vec<T> {
        let rows = numbers.chunks_exact(self.pass.batch.target_tokens());
        rows.flat_map(|row| &row[range.clone()]).copied().collect()
    }
}

/// Rows of logits of whole vectors, where there are that many.
fn whole_block(tokens: usize) -> usize {
    const VECTOR: usize = 8;
    if tokens < VECTOR { tokens } else { tokens / VECTOR * VECTOR }
}

//! From the last layer's outputs to the loss, and back to their gradients.

use std::ops::Range;

use terrace_device::View;
use terrace_kernels::{HeadLora, HeadLossArgs, RmsNormGradients, TuneOps};

use crate::batch::Batch;
use crate::checkpoints::StoredRows;
use crate::error::Error;
use crate::loss_factors::LossMean;
use crate::model::{Gradients, MatrixParameter, TunedModel};
use crate::tensor::Tensor;

pub(crate) struct HeadPass<'a> {
    pub ops: TuneOps<'a>,
    pub model: &'a TunedModel,
    pub batch: &'a Batch<'a>,
    pub loss_mean: LossMean,
    pub logits_most: usize,
}

/// Rows of which logits are computed at a time.
const ROWS: usize = 1024;

impl HeadPass<'_> {
    /// outputs: of the positions with targets · d_outputs: of all positions, of which these are
    /// written. Gives the loss.
    pub fn run(
        &self,
        outputs: &StoredRows,
        d_outputs: &mut StoredRows,
        gradients: &mut Gradients,
    ) -> Result<f64, Error> {
        let factors = self.loss_mean.factors(self.batch);
        let targets = self.batch.target_tokens();
        let step = (ROWS / self.batch.seqs).max(1);
        let mut loss = 0.0;
        for start in (0..targets).step_by(step) {
            let range = start..targets.min(start + step);
            let x = outputs.read(&range)?;
            let (sum, d_x) = self.run_rows(&x, &range, &factors, gradients)?;
            loss += sum;
            let first = self.batch.tokens() - targets;
            d_outputs.write(&(first + range.start..first + range.end), d_x.numbers());
        }
        Ok(loss)
    }

    /// x: f32 `[seqs * range.len(), hidden]`
    fn run_rows(
        &self,
        x: &Tensor,
        range: &Range<usize>,
        factors: &[f32],
        gradients: &mut Gradients,
    ) -> Result<(f64, Tensor), Error> {
        let TunedModel { final_norm, norm_eps, .. } = self.model;
        let weight = final_norm.tensor.view();
        let mut normed = Tensor::zeros("normed outputs", x.shape())?;
        self.ops.rms_norm(x.view(), weight, *norm_eps, normed.view_mut());
        let targets = self.of_range(self.batch.targets, range);
        let factors = self.of_range(factors, range);
        let (losses, d_normed) = self.losses(&normed, &targets, &factors, gradients)?;
        let mut d_x = Tensor::zeros("gradients of outputs", x.shape())?;
        self.ops.rms_norm_gradients(RmsNormGradients {
            x: x.view(),
            weight,
            eps: *norm_eps,
            d_out: d_normed.view(),
            d_x: d_x.view_mut(),
            d_weight: final_norm.id.map(|id| gradients.view_mut(id)),
        });
        let losses = losses.numbers::<f32>().iter().zip(&factors);
        let sum = losses.map(|(loss, factor)| f64::from(*loss) * f64::from(*factor)).sum();
        Ok((sum, d_x))
    }

    /// Losses of rows, and the gradient of what the head is given.
    fn losses(
        &self,
        x: &Tensor,
        targets: &[i32],
        factors: &[f32],
        gradients: &mut Gradients,
    ) -> Result<(Tensor, Tensor), Error> {
        let rows = targets.len();
        let MatrixParameter { linear: head, id } = match &self.model.head {
            Some(head) => &head.base,
            None => &self.model.embed,
        };
        let block = (self.logits_most / rows).clamp(1, head.rows());
        let mut logits = Tensor::zeros("logits", [rows, block])?;
        let mut found = Tensor::zeros("sums of logits", [rows, 3])?;
        let mut losses = Tensor::zeros("losses", [rows])?;
        let mut d_x = Tensor::zeros("gradients of outputs", x.shape())?;
        let lora = self.model.head.as_ref().and_then(|head| head.lora.as_ref());
        let rank = lora.map_or(1, |lora| lora.rank());
        let mut inner = Tensor::zeros("inner rows of branches", [rows, rank])?;
        let mut d_inner = Tensor::zeros("gradients of branches", [rows, rank])?;
        // A head has a weight that is trained, or a branch that is.
        let mut d_head = None;
        let mut head_lora = None;
        if let Some(lora) = lora {
            let ids = [&lora.a, &lora.b].map(|matrix| matrix.id.expect("a branch is trained"));
            let [d_a, d_b] = gradients.pair_mut(ids);
            head_lora = Some(HeadLora {
                branch: lora.branch(),
                inner: inner.view_mut(),
                d_inner: d_inner.view_mut(),
                d_a,
                d_b,
            });
        } else if let Some(id) = id {
            d_head = Some(gradients.view_mut(*id));
        }
        self.ops.head_loss(HeadLossArgs {
            x: x.view(),
            head,
            lora: head_lora,
            targets: View::of(targets, [rows]),
            factors: View::of(factors, [rows]),
            logits: logits.view_mut(),
            found: found.view_mut(),
            losses: losses.view_mut(),
            d_x: Some(d_x.view_mut()),
            d_head,
        });
        Ok((losses, d_x))
    }

    /// Some positions of `[seqs, targets]`.
    fn of_range<T: Copy>(&self, numbers: &[T], range: &Range<usize>) -> Vec<T> {
        let rows = numbers.chunks_exact(self.batch.target_tokens());
        rows.flat_map(|row| &row[range.clone()]).copied().collect()
    }
}

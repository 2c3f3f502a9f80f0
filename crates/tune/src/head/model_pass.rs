//! A [`HeadModel`] over what the last layer gives: all chunks forward, and the same backward.
//!
//! Between the two nothing is kept but what the model itself keeps: outputs are read again, and
//! logits computed again.

use std::ops::Range;

use terrace_device::{DType, View};
use terrace_kernels::RmsNormGradients;

use super::head_model::{HeadChunk, HeadModel};
use super::head_pass::{HeadGradients, HeadPass};
use crate::checkpoints::StoredRows;
use crate::error::Error;
use crate::model::{Gradients, ProjectionTrace, TunedModel};
use crate::tensor::Tensor;

pub(super) struct ModelPass<'a> {
    pub pass: HeadPass<'a>,
    pub head: &'a dyn HeadModel,
}

/// What the head is given of some positions.
struct ChunkOutputs {
    /// The last layer's.
    x: Tensor,
    normed: Tensor,
    logits: Option<(Tensor, Option<ProjectionTrace>)>,
    /// `[seqs, targets]`, where any of them has one.
    targets: Option<Vec<i32>>,
    positions: Range<usize>,
}

impl ModelPass<'_> {
    /// outputs: of the head's positions.
    pub fn run(
        &self,
        outputs: &StoredRows,
        gradients: Option<HeadGradients<'_>>,
    ) -> Result<f64, Error> {
        let batch = self.pass.batch;
        let d_losses = self.d_losses()?;
        let mut head = self.head.batch(batch.seqs);
        let mut losses = vec![0.0; batch.seqs];
        let chunks = self.chunks();
        for positions in &chunks {
            let chunk = self.outputs(outputs, positions)?;
            let given = chunk.given().numbers(&self.pass.ops)?;
            let added = head.forward(&chunk.head_chunk(&given));
            losses.iter_mut().zip(added).for_each(|(sum, loss)| *sum += loss);
        }
        if let Some(HeadGradients { d_outputs, gradients }) = gradients {
            for positions in chunks.iter().rev() {
                let chunk = self.outputs(outputs, positions)?;
                let ops = &self.pass.ops;
                let given = chunk.given().numbers(ops)?;
                let shape = chunk.given().shape();
                let mut d_given = Tensor::zeros(ops, "gradients of the head", shape)?;
                let mut d_own = gradients.slices_mut(&self.pass.model.head_parameters);
                d_given.change(ops, |d_given| {
                    head.backward(&chunk.head_chunk(&given), &d_losses, d_given, &mut d_own);
                })?;
                let d_x = self.backward(&chunk, d_given, gradients)?;
                d_outputs.write(ops, positions, &d_x)?;
            }
        }
        Ok(losses.iter().zip(&d_losses).map(|(loss, factor)| loss * factor).sum())
    }

    /// What each sequence's loss counts in the batch's.
    fn d_losses(&self) -> Result<Vec<f64>, Error> {
        let batch = self.pass.batch;
        let rows = || batch.targets.chunks_exact(batch.target_tokens());
        for row in rows() {
            self.head.check_targets(row).map_err(Error::Targets)?;
        }
        let counts: Option<Vec<usize>> =
            rows().map(|row| self.head.num_target_entries(row)).collect();
        Ok(match counts {
            Some(counts) => self.pass.loss_mean.seq_factors(&counts),
            None => vec![1.0 / batch.seqs as f64; batch.seqs],
        })
    }

    /// Positions that the head is given at a time.
    fn chunks(&self) -> Vec<Range<usize>> {
        let HeadPass { model, batch, logits_most, .. } = self.pass;
        let positions = model.head_model.positions(batch);
        let step = match self.head.needs_logits() {
            true => (logits_most / (batch.seqs * model.embed.linear.rows())).min(self.pass.step()),
            false => self.pass.step(),
        };
        let starts = positions.clone().step_by(step.max(1));
        starts.map(|start| start..positions.end.min(start + step.max(1))).collect()
    }

    fn outputs(
        &self,
        outputs: &StoredRows,
        positions: &Range<usize>,
    ) -> Result<ChunkOutputs, Error> {
        let HeadPass { ops, model, batch, .. } = self.pass;
        let TunedModel { final_norm, norm_eps, .. } = model;
        let first = model.head_model.positions(batch).start;
        let x = outputs.read(&ops, &(positions.start - first..positions.end - first))?;
        let mut normed = Tensor::unset_act(&ops, "normed outputs", x.shape())?;
        ops.rms_norm(x.view(), final_norm.tensor.view(), *norm_eps, normed.view_mut());
        let logits = match (self.head.needs_logits(), &model.head) {
            (false, _) => None,
            (true, Some(head)) => {
                let (logits, trace) =
                    head.in_place().forward(&ops, normed.view(), None, DType::F32)?;
                Some((logits, Some(trace)))
            }
            (true, None) => {
                let rows = batch.seqs * positions.len();
                let table = &model.embed.linear;
                let mut logits = Tensor::unset(&ops, "logits", [rows, table.rows()])?;
                ops.project(normed.view(), table, logits.view_mut());
                Some((logits, None))
            }
        };
        let targets = self.targets(positions);
        Ok(ChunkOutputs { x, normed, logits, targets, positions: positions.clone() })
    }

    /// Those of some positions, which are at the end of them.
    fn targets(&self, positions: &Range<usize>) -> Option<Vec<i32>> {
        let batch = self.pass.batch;
        let count = batch.target_tokens();
        let first = batch.tokens() - count;
        let range = positions.start.max(first) - first..positions.end.max(first) - first;
        let rows = batch.targets.chunks_exact(count);
        (!range.is_empty()).then(|| rows.flat_map(|row| &row[range.clone()]).copied().collect())
    }

    /// From the gradient of what the head was given to that of the last layer's outputs.
    fn backward(
        &self,
        chunk: &ChunkOutputs,
        d_given: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor, Error> {
        let HeadPass { ops, model, .. } = self.pass;
        let d_normed = match &chunk.logits {
            None => d_given,
            Some((_, trace)) => {
                let mut d_normed = Tensor::zeros(&ops, "gradients of outputs", chunk.x.shape())?;
                let normed = chunk.normed.view();
                match (&model.head, trace) {
                    (Some(head), Some(trace)) => {
                        let d_given = d_given.view();
                        head.in_place().backward(
                            &ops,
                            normed,
                            (trace, None),
                            d_given,
                            &mut d_normed,
                            gradients,
                        )?;
                    }
                    _ => self.through_table(normed, d_given.view(), &mut d_normed, gradients)?,
                }
                d_normed
            }
        };
        let mut d_x = Tensor::zeros(&ops, "gradients of outputs", chunk.x.shape())?;
        ops.rms_norm_gradients(RmsNormGradients {
            x: chunk.x.view(),
            weight: model.final_norm.tensor.view(),
            eps: model.norm_eps,
            d_out: d_normed.view(),
            d_x: d_x.view_mut(),
            d_weight: model.final_norm.id.map(|id| gradients.view_mut(id)),
        });
        Ok(d_x)
    }

    /// Through logits that the embedding's rows gave.
    fn through_table(
        &self,
        x: View<'_>,
        d_logits: View<'_>,
        d_x: &mut Tensor,
        gradients: &mut Gradients,
    ) -> Result<(), Error> {
        let HeadPass { ops, model, .. } = self.pass;
        ops.input_gradient(d_logits, &model.embed.linear, d_x.view_mut())?;
        if let Some(id) = model.embed.id {
            ops.weight_gradient(d_logits, x, gradients.view_mut(id))?;
        }
        Ok(())
    }
}

impl ChunkOutputs {
    fn given(&self) -> &Tensor {
        self.logits.as_ref().map_or(&self.normed, |(logits, _)| logits)
    }

    /// outputs: what it was given, on the host
    fn head_chunk<'a>(&'a self, outputs: &'a [f32]) -> HeadChunk<'a> {
        let [_, width] = self.given().view().dims();
        HeadChunk {
            outputs,
            tokens: self.positions.len(),
            width,
            targets: self.targets.as_deref(),
            input_pos: self.positions.start,
        }
    }
}

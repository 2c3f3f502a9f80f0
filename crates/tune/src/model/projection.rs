//! A product of the model: its weight, its bias, and the branch that is trained beside it.
//!
//! The three kinds of branches differ in what happens to `scale b a x`: it is added, it is added
//! through a norm, or rows of the sum of both are given their own length.

use terrace_device::{DType, View, ViewMut};
use terrace_kernels::random::SplitMix;
use terrace_kernels::{Dropout, Linear, LoraBranch, LoraGradients, RmsNormGradients, TuneOps};
use terrace_model::LORA_NORM_EPS;

use super::gradients::Gradients;
use super::parameter::{Change, MatrixParameter, VectorParameter};
use crate::error::Error;
use crate::tensor::Tensor;

pub(crate) struct Projection {
    pub base: MatrixParameter,
    pub bias: Option<VectorParameter>,
    pub lora: Option<Lora>,
}

/// A product whose weight is where the ops compute.
#[derive(Clone, Copy)]
pub(crate) struct PlacedProjection<'a> {
    pub projection: &'a Projection,
    pub weight: &'a Linear,
}

pub(crate) struct Lora {
    pub a: MatrixParameter,
    pub b: MatrixParameter,
    pub scale: f32,
    /// Share of its inputs that it leaves out in training.
    pub dropout: f32,
    pub form: LoraForm,
}

/// Rows of a cell, by which a branch leaves out the same of its inputs whenever they come.
#[derive(Clone, Copy)]
pub(crate) struct DroppedRows {
    /// Of the batch.
    pub seed: u64,
    /// Of each sequence.
    pub tokens: usize,
    /// Of the first of them.
    pub position: usize,
}

/// The kinds, with what they train besides the two matrices.
pub(crate) enum LoraForm {
    Default,
    /// The norm's weight, one for each output.
    RmsNorm(VectorParameter),
    /// The length of each row.
    Dora(VectorParameter),
}

/// What the gradients of a product need of its forward pass.
pub(crate) struct ProjectionTrace {
    /// `x * a^T`
    inner: Option<Tensor>,
    /// Of a norm: the branch's output; of lengths: the sum of both before it is scaled.
    before: Option<Tensor>,
    /// Of lengths.
    rows: Option<RowLengths>,
}

/// One over the norm that each row has, and the trained length over it.
struct RowLengths {
    inverses: Tensor,
    factors: Tensor,
}

impl Projection {
    /// As it is, where its weight is where the ops compute.
    pub fn in_place(&self) -> PlacedProjection<'_> {
        PlacedProjection { projection: self, weight: &self.base.linear }
    }

    pub fn change(&mut self, ops: &TuneOps<'_>, f: &mut Change<'_>) -> Result<(), Error> {
        self.base.change(ops, f)?;
        if let Some(bias) = &mut self.bias {
            bias.change(ops, f)?;
        }
        let Some(lora) = &mut self.lora else { return Ok(()) };
        lora.a.change(ops, f)?;
        lora.b.change(ops, f)?;
        match &mut lora.form {
            LoraForm::Default => Ok(()),
            LoraForm::RmsNorm(vector) | LoraForm::Dora(vector) => vector.change(ops, f),
        }
    }
}

impl PlacedProjection<'_> {
    pub fn rows(&self) -> usize {
        self.weight.rows()
    }

    /// x: act `[tokens, columns]` · gives `[tokens, rows]`, act or f32 as wanted. `dropped`: none
    /// where nothing is left out.
    pub fn forward(
        &self,
        ops: &TuneOps<'_>,
        x: View<'_>,
        dropped: Option<DroppedRows>,
        wanted: DType,
    ) -> Result<(Tensor, ProjectionTrace), Error> {
        let ([tokens, _], rows) = (x.dims(), self.rows());
        let first = match &self.projection.lora {
            // Its rows are scaled before they are rounded.
            Some(Lora { form: LoraForm::Dora(_), .. }) => DType::F32,
            _ => wanted,
        };
        let mut out = Tensor::unset_of(ops, "outputs of products", first, [tokens, rows])?;
        ops.project(x, self.weight, out.view_mut());
        let mut trace = ProjectionTrace { inner: None, before: None, rows: None };
        if let Some(lora) = &self.projection.lora {
            let shape = [tokens, lora.rank()];
            let mut inner = Tensor::unset_act(ops, "inner rows of branches", shape)?;
            let seen = lora.seen(ops, x, dropped)?;
            let x = seen.as_ref().map_or(x, Tensor::view);
            match &lora.form {
                LoraForm::Default => {
                    ops.add_branch(x, lora.branch(), inner.view_mut(), out.view_mut());
                }
                LoraForm::RmsNorm(weight) => {
                    let mut added = Tensor::zeros(ops, "outputs of branches", [tokens, rows])?;
                    ops.add_branch(x, lora.branch(), inner.view_mut(), added.view_mut());
                    let mut normed = Tensor::unset(ops, "norms of branches", [tokens, rows])?;
                    let weight = weight.tensor.view();
                    ops.rms_norm(added.view(), weight, LORA_NORM_EPS, normed.view_mut());
                    ops.add(out.view_mut(), normed.view());
                    trace.before = Some(added);
                }
                LoraForm::Dora(lengths) => {
                    ops.add_branch(x, lora.branch(), inner.view_mut(), out.view_mut());
                    let lengths = self.row_lengths(ops, lora, lengths)?;
                    let shape = [tokens, rows];
                    let mut scaled = Tensor::unset_of(ops, "outputs of products", wanted, shape)?;
                    ops.scale_columns(out.view(), lengths.factors.view(), scaled.view_mut());
                    trace.before = Some(std::mem::replace(&mut out, scaled));
                    trace.rows = Some(lengths);
                }
            }
            trace.inner = Some(inner);
        }
        if let Some(bias) = &self.projection.bias {
            ops.add_to_columns(out.view_mut(), bias.tensor.view());
        }
        Ok((out, trace))
    }

    /// Adds to `d_x` and to the gradients of what is trained.
    pub fn backward(
        &self,
        ops: &TuneOps<'_>,
        x: View<'_>,
        (trace, dropped): (&ProjectionTrace, Option<DroppedRows>),
        d_out: View<'_>,
        d_x: &mut Tensor,
        gradients: &mut Gradients,
    ) -> Result<(), Error> {
        let Projection { base, bias, lora } = self.projection;
        if let Some(id) = bias.as_ref().and_then(|bias| bias.id) {
            ops.bias_gradient(d_out, gradients.view_mut(id));
        }
        if let Some(id) = base.id {
            ops.weight_gradient(d_out, x, gradients.view_mut(id))?;
        }
        let Some(lora) = lora else {
            return Ok(ops.input_gradient(d_out, self.weight, d_x.view_mut())?);
        };
        let shape = d_out.dims::<2>();
        match &lora.form {
            LoraForm::Default => {
                ops.input_gradient(d_out, self.weight, d_x.view_mut())?;
                lora.backward(ops, x, (trace, dropped), d_out, d_x, gradients)
            }
            LoraForm::RmsNorm(weight) => {
                ops.input_gradient(d_out, self.weight, d_x.view_mut())?;
                let mut d_added = Tensor::zeros(ops, "gradients of branches", shape)?;
                ops.rms_norm_gradients(RmsNormGradients {
                    x: trace.before(),
                    weight: weight.tensor.view(),
                    eps: LORA_NORM_EPS,
                    d_out,
                    d_x: d_added.view_mut(),
                    d_weight: weight.id.map(|id| gradients.view_mut(id)),
                });
                lora.backward(ops, x, (trace, dropped), d_added.view(), d_x, gradients)
            }
            LoraForm::Dora(lengths) => {
                let rows = trace.rows.as_ref().expect("kept by the forward pass");
                if let Some(id) = lengths.id {
                    rows.add_gradients(ops, trace.before(), d_out, gradients.view_mut(id))?;
                }
                let mut d_sum = Tensor::unset(ops, "gradients of products", shape)?;
                ops.scale_columns(d_out, rows.factors.view(), d_sum.view_mut());
                ops.input_gradient(d_sum.view(), self.weight, d_x.view_mut())?;
                lora.backward(ops, x, (trace, dropped), d_sum.view(), d_x, gradients)
            }
        }
    }

    fn row_lengths(
        &self,
        ops: &TuneOps<'_>,
        lora: &Lora,
        lengths: &VectorParameter,
    ) -> Result<RowLengths, Error> {
        let mut norms = Tensor::unset(ops, "norms of rows", [self.rows()])?;
        ops.branch_row_norms(self.weight, lora.branch(), norms.view_mut())?;
        let (norms, lengths) = (norms.numbers(ops)?, lengths.tensor.numbers(ops)?);
        let inverses: Vec<f32> = norms.iter().map(|norm| 1.0 / norm).collect();
        let pairs = norms.iter().zip(&*lengths);
        let factors: Vec<f32> = pairs.map(|(norm, length)| length / norm).collect();
        let placed = |numbers: &[f32]| Tensor::of(ops, "lengths of rows", numbers, [numbers.len()]);
        Ok(RowLengths { inverses: placed(&inverses)?, factors: placed(&factors)? })
    }
}

impl Lora {
    pub fn rank(&self) -> usize {
        self.a.linear.rows()
    }

    pub fn branch(&self) -> LoraBranch<'_> {
        LoraBranch { a: &self.a.linear, b: &self.b.linear, scale: self.scale }
    }

    /// What the branch sees of x, if that is not all of it.
    fn seen(
        &self,
        ops: &TuneOps<'_>,
        x: View<'_>,
        dropped: Option<DroppedRows>,
    ) -> Result<Option<Tensor>, Error> {
        let dropout = dropped.and_then(|rows| self.dropout(rows));
        let seen = dropout.map(|dropout| {
            let mut seen = Tensor::unset_act(ops, "inputs of branches", x.dims::<2>())?;
            ops.drop_out(x, dropout, seen.view_mut());
            Ok(seen)
        });
        seen.transpose()
    }

    /// Each branch leaves out others.
    fn dropout(&self, rows: DroppedRows) -> Option<Dropout> {
        let id = self.a.id.expect("a branch is trained");
        let seed = SplitMix::new(rows.seed.wrapping_add(id.index() as u64)).bits();
        let DroppedRows { tokens: row_tokens, position, .. } = rows;
        let share = self.dropout;
        (0.0 < share).then_some(Dropout { seed, share, row_tokens, position })
    }

    /// d_out: of the branch's own output.
    fn backward(
        &self,
        ops: &TuneOps<'_>,
        x: View<'_>,
        (trace, dropped): (&ProjectionTrace, Option<DroppedRows>),
        d_out: View<'_>,
        d_x: &mut Tensor,
        gradients: &mut Gradients,
    ) -> Result<(), Error> {
        let [tokens, _] = d_out.dims();
        let inner = trace.inner.as_ref().expect("kept by the forward pass");
        let mut d_inner = Tensor::unset_act(ops, "gradients of branches", [tokens, self.rank()])?;
        let ids = [&self.a, &self.b].map(|matrix| matrix.id.expect("a branch is trained"));
        let [d_a, d_b] = gradients.pair_mut(ids);
        let args = |x, d_x| LoraGradients {
            x,
            inner: inner.view(),
            d_out,
            d_inner: d_inner.view_mut(),
            d_x,
            d_a,
            d_b,
        };
        let Some(dropout) = dropped.and_then(|rows| self.dropout(rows)) else {
            return Ok(ops.lora_gradients(self.branch(), args(x, d_x.view_mut()))?);
        };
        let mut seen = Tensor::unset_act(ops, "inputs of branches", x.dims::<2>())?;
        let mut d_seen = Tensor::zeros(ops, "gradients of branches", x.dims::<2>())?;
        ops.drop_out(x, dropout, seen.view_mut());
        ops.lora_gradients(self.branch(), args(seen.view(), d_seen.view_mut()))?;
        // What was left out has no gradient, and the rest was scaled.
        let mut kept = Tensor::unset(ops, "gradients of branches", x.dims::<2>())?;
        ops.drop_out(d_seen.view(), dropout, kept.view_mut());
        ops.add(d_x.view_mut(), kept.view());
        Ok(())
    }
}

impl RowLengths {
    /// A row's norm counts as given: its length alone has a gradient.
    fn add_gradients(
        &self,
        ops: &TuneOps<'_>,
        before: View<'_>,
        d_out: View<'_>,
        d_lengths: ViewMut<'_>,
    ) -> Result<(), Error> {
        let [rows] = d_lengths.dims();
        let mut d_factors = Tensor::zeros(ops, "gradients of lengths", [rows])?;
        ops.factor_gradients(before, d_out, d_factors.view_mut());
        let mut scaled = Tensor::unset(ops, "gradients of lengths", [1, rows])?;
        let inverses = self.inverses.view();
        ops.scale_columns(d_factors.as_shape([1, rows]), inverses, scaled.view_mut());
        ops.add(d_lengths.reshape([1, rows]), scaled.view());
        Ok(())
    }
}

impl ProjectionTrace {
    fn before(&self) -> View<'_> {
        self.before.as_ref().expect("kept by the forward pass").view()
    }
}

#[cfg(test)]
mod tests;

//! Queries, keys and values of a cell, with what their gradients need.

use terrace_device::{DType, View};
use terrace_kernels::{RmsNormGradients, TuneOps};
use terrace_model::LayerProduct;

use super::layer_pass::LayerPass;
use crate::error::Error;
use crate::model::{DroppedRows, Gradients, PlacedProjection, ProjectionTrace, VectorParameter};
use crate::tensor::Tensor;

/// Rotated heads of queries or keys: act `[rows, heads * dim]`.
pub(super) struct Heads {
    pub rotated: Tensor,
    /// Before the norm of each head, f32; `None` without one.
    raw: Option<Tensor>,
    trace: ProjectionTrace,
}

/// Values: act `[rows, kv_heads * dim]`.
pub(super) struct Values {
    pub rows: Tensor,
    trace: ProjectionTrace,
}

/// A product whose heads are normed and rotated.
#[derive(Clone, Copy)]
pub(super) struct HeadProjection<'a> {
    pub pass: &'a LayerPass<'a>,
    pub projection: PlacedProjection<'a>,
    pub norm: Option<&'a VectorParameter>,
}

impl HeadProjection<'_> {
    /// x: the layer's normed input, act `[rows, hidden]`
    pub fn forward(&self, x: View<'_>) -> Result<Heads, Error> {
        let LayerPass { ops, cell, layer, .. } = self.pass;
        let wanted = if self.norm.is_some() { DType::F32 } else { ops.activation() };
        let (mut out, trace) = self.projection.forward(ops, x, cell.dropped(), wanted)?;
        let shape = self.shape();
        let mut raw = None;
        if let Some(norm) = self.norm {
            let mut normed = Tensor::unset_act(ops, "normed heads", out.shape())?;
            let weight = norm.tensor.view();
            ops.rms_norm(out.as_shape(shape), weight, cell.norm_eps, normed.as_shape_mut(shape));
            raw = Some(std::mem::replace(&mut out, normed));
        }
        let (angles, style) = cell.angles(*layer);
        ops.rope(out.as_shape_mut(shape), angles, style);
        Ok(Heads { rotated: out, raw, trace })
    }

    /// `d_heads` is of what was rotated, and used up.
    pub fn backward(
        &self,
        x: View<'_>,
        heads: &Heads,
        mut d_heads: Tensor,
        d_x: &mut Tensor,
        gradients: &mut Gradients,
    ) -> Result<(), Error> {
        let LayerPass { ops, cell, layer, .. } = self.pass;
        let shape = self.shape();
        let (angles, style) = cell.angles(*layer);
        ops.rope_gradient(d_heads.as_shape_mut(shape), angles, style);
        if let (Some(norm), Some(raw)) = (self.norm, &heads.raw) {
            let mut d_raw = Tensor::zeros(ops, "gradients of heads", raw.shape())?;
            ops.rms_norm_gradients(RmsNormGradients {
                x: raw.as_shape(shape),
                weight: norm.tensor.view(),
                eps: cell.norm_eps,
                d_out: d_heads.as_shape(shape),
                d_x: d_raw.as_shape_mut(shape),
                d_weight: norm.id.map(|id| gradients.view_mut(id)),
            });
            d_heads = d_raw;
        }
        let trace = (&heads.trace, cell.dropped());
        self.projection.backward(ops, x, trace, d_heads.view(), d_x, gradients)
    }

    fn shape(&self) -> [usize; 3] {
        let dim = self.pass.weights.dims.head_dim;
        [self.pass.cell.rows(), self.projection.rows() / dim, dim]
    }
}

impl Values {
    pub fn forward(
        ops: &TuneOps<'_>,
        projection: PlacedProjection<'_>,
        x: View<'_>,
        dropped: Option<DroppedRows>,
    ) -> Result<Self, Error> {
        let (rows, trace) = projection.forward(ops, x, dropped, ops.activation())?;
        Ok(Values { rows, trace })
    }

    pub fn backward(
        &self,
        ops: &TuneOps<'_>,
        projection: PlacedProjection<'_>,
        x: View<'_>,
        (d_rows, dropped): (View<'_>, Option<DroppedRows>),
        d_x: &mut Tensor,
        gradients: &mut Gradients,
    ) -> Result<(), Error> {
        projection.backward(ops, x, (&self.trace, dropped), d_rows, d_x, gradients)
    }
}

impl LayerPass<'_> {
    pub(super) fn queries(&self) -> HeadProjection<'_> {
        let norm = self.weights.query_norm.as_ref();
        HeadProjection { pass: self, projection: self.projection(LayerProduct::Query), norm }
    }

    pub(super) fn keys(&self) -> HeadProjection<'_> {
        let norm = self.weights.key_norm.as_ref();
        HeadProjection { pass: self, projection: self.projection(LayerProduct::Key), norm }
    }

    /// Keys and values of a cell from the layer's input, and nothing else of the layer.
    pub fn key_values(&self, x: &Tensor) -> Result<[Tensor; 2], Error> {
        let normed = self.norm(x, &self.weights.attention_norm)?;
        let keys = self.keys().forward(normed.view())?;
        let values = self.projection(LayerProduct::Value);
        let values = Values::forward(&self.ops, values, normed.view(), self.cell.dropped())?;
        Ok([keys.rotated, values.rows])
    }
}

//! One layer and one cell: what both of its passes are given.

use terrace_kernels::TuneOps;
use terrace_model::LayerProduct;

use super::cell_pass::CellPass;
use crate::error::Error;
use crate::model::{Gradients, PlacedLayer, PlacedProjection, VectorParameter};
use crate::tensor::Tensor;

#[derive(Clone, Copy)]
pub(crate) struct LayerPass<'a> {
    pub ops: TuneOps<'a>,
    pub weights: PlacedLayer<'a>,
    pub layer: usize,
    pub cell: &'a CellPass<'a>,
}

impl<'a> LayerPass<'a> {
    pub(super) fn projection(&self, product: LayerProduct) -> PlacedProjection<'a> {
        self.weights.projection(product)
    }

    pub(super) fn scale(&self) -> f32 {
        self.cell.rope.scale(self.layer)
    }

    pub(super) fn norm(&self, x: &Tensor, weight: &VectorParameter) -> Result<Tensor, Error> {
        let mut out = Tensor::unset_act(&self.ops, "normed rows", x.shape())?;
        let weight = weight.tensor.view();
        self.ops.rms_norm(x.view(), weight, self.cell.norm_eps, out.view_mut());
        Ok(out)
    }

    /// Adds to `d_x`.
    pub(super) fn norm_backward(
        &self,
        x: &Tensor,
        weight: &VectorParameter,
        d_out: &Tensor,
        d_x: &mut Tensor,
        gradients: &mut Gradients,
    ) {
        self.ops.rms_norm_gradients(terrace_kernels::RmsNormGradients {
            x: x.view(),
            weight: weight.tensor.view(),
            eps: self.cell.norm_eps,
            d_out: d_out.view(),
            d_x: d_x.view_mut(),
            d_weight: weight.id.map(|id| gradients.view_mut(id)),
        });
    }
}

//! LayerNorm over the innermost extent.

use terrace_device::{View, ViewMut};
use terrace_kernels::{Affine, Ops, Vector};

use super::batch_norm::read_eps;
use super::shape_rules::one;
use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_param::CtrParam;
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;
use crate::error::Error;

struct LayerNorm {
    eps: f32,
}

pub(super) fn read(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    Ok(Box::new(LayerNorm { eps: read_eps(fields, "ln_param")? }))
}

impl CtrLayer for LayerNorm {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        Ok(vec![one(bottoms)?.clone()])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for LayerNorm {
    fn params(&self, bottoms: &[CtrShape]) -> Vec<CtrParam> {
        let shape = [1, bottoms[0].last()];
        vec![CtrParam::trained("gamma", shape), CtrParam::trained("beta", shape)]
    }

    fn bottom_rows(&self, bottom: &CtrShape) -> usize {
        bottom.numbers() / bottom.last()
    }

    fn top_rows(&self, top: &CtrShape) -> usize {
        top.numbers() / top.last()
    }

    fn place(&self, placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        let place = |name: &str| placing.ops.place_vector(placing.params.get(name));
        Ok(Box::new(PlacedNorm { gamma: place("gamma")?, beta: place("beta")?, eps: self.eps }))
    }
}

struct PlacedNorm {
    gamma: Vector,
    beta: Vector,
    eps: f32,
}

impl PlacedCtrLayer for PlacedNorm {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        let affine = Affine { weight: &self.gamma, bias: &self.beta };
        ops.norm_rows(bottoms[0], affine, self.eps, tops[0].reborrow());
    }
}

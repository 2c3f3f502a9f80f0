//! What ends a layer of a cross network with matrices: the network's input times the product, and
//! the layer's input.

use terrace_device::{View, ViewMut};
use terrace_kernels::{CrossStepArgs, Ops};

use super::shape_rules::all_equal;
use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::error::Error;

/// Bottoms: the network's input, the product, the layer's input.
pub(super) struct CrossStep;

impl CtrLayer for CrossStep {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        Ok(vec![all_equal(bottoms)?.clone()])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for CrossStep {
    fn place(&self, _placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        Ok(Box::new(PlacedStep))
    }
}

struct PlacedStep;

impl PlacedCtrLayer for PlacedStep {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        let args = CrossStepArgs { first: bottoms[0], product: bottoms[1], x: bottoms[2] };
        ops.cross_step(&args, tops[0].reborrow());
    }
}

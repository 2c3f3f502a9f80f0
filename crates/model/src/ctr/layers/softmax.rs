//! Softmax over the innermost extent.

use terrace_device::{View, ViewMut};
use terrace_kernels::Ops;

use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;
use crate::error::Error;

pub(in crate::ctr) struct Softmax;

pub(super) fn read(_fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    Ok(Box::new(Softmax))
}

impl CtrLayer for Softmax {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        match bottoms {
            [bottom] => Ok(vec![bottom.clone()]),
            _ => Err(format!(
                "it has {} bottoms; a softmax with a mask is known inside MultiHeadAttention only",
                bottoms.len()
            )),
        }
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for Softmax {
    fn bottom_rows(&self, bottom: &CtrShape) -> usize {
        bottom.numbers() / bottom.last()
    }

    fn top_rows(&self, top: &CtrShape) -> usize {
        top.numbers() / top.last()
    }

    fn place(&self, _placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        Ok(Box::new(PlacedSoftmax))
    }
}

struct PlacedSoftmax;

impl PlacedCtrLayer for PlacedSoftmax {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        ops.softmax_rows(bottoms[0], tops[0].reborrow());
    }
}

//! FmOrder2: the sum of the products of all pairs of a row's vectors.

use terrace_device::{View, ViewMut};
use terrace_kernels::Ops;

use super::shape_rules::{columns, one};
use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;
use crate::error::Error;

struct FmOrder2 {
    dim: usize,
}

pub(super) fn read(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    Ok(Box::new(FmOrder2 { dim: fields.count("out_dim")? }))
}

impl CtrLayer for FmOrder2 {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let bottom = one(bottoms)?;
        let top = CtrShape::new(bottom.rows(), &[self.dim])?;
        match columns(bottom)?.is_multiple_of(self.dim) {
            true => Ok(vec![top]),
            false => Err(format!("its bottom {bottom} has no vectors of out_dim {}", self.dim)),
        }
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for FmOrder2 {
    fn place(&self, _placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        Ok(Box::new(PlacedPairs))
    }
}

struct PlacedPairs;

impl PlacedCtrLayer for PlacedPairs {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        ops.fm_order2(bottoms[0], tops[0].reborrow());
    }
}

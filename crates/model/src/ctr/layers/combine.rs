//! Add, Sub and ElementwiseMultiply, which an older name of is DotProduct: tensors of one shape,
//! number by number.

use terrace_device::{View, ViewMut};
use terrace_kernels::{Combination, CombineArgs, CtrActivation, Ops};

use super::shape_rules::all_equal;
use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;
use crate::error::Error;

struct Combine {
    kind: Combination,
}

pub(super) fn read_add(_fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    Ok(Box::new(Combine { kind: Combination::Add }))
}

pub(super) fn read_subtract(_fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    Ok(Box::new(Combine { kind: Combination::Subtract }))
}

pub(super) fn read_multiply(_fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    Ok(Box::new(Combine { kind: Combination::Multiply }))
}

impl CtrLayer for Combine {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let shape = all_equal(bottoms)?;
        match (self.kind, bottoms.len()) {
            (Combination::Subtract, 3..) => {
                Err(format!("it has {} bottoms, but takes two", bottoms.len()))
            }
            _ => Ok(vec![shape.clone()]),
        }
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for Combine {
    fn activates(&self) -> bool {
        true
    }

    fn place(&self, placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        Ok(Box::new(PlacedCombine { kind: self.kind, activation: placing.activation }))
    }
}

struct PlacedCombine {
    kind: Combination,
    activation: Option<CtrActivation>,
}

impl PlacedCtrLayer for PlacedCombine {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        let args = CombineArgs { kind: self.kind, inputs: bottoms, activation: self.activation };
        ops.combine(&args, tops[0].reborrow());
    }
}

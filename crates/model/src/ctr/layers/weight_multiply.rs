//! WeightMultiply: each number times a vector of its own.

use terrace_device::{View, ViewMut};
use terrace_kernels::{Ops, Vector};

use super::shape_rules::{columns, one};
use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_param::CtrParam;
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;
use crate::error::Error;

struct WeightMultiply {
    /// Numbers of a row, and of the vector of each.
    weight_dims: [usize; 2],
}

pub(super) fn read(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    let dims = fields.counts("weight_dims")?;
    let weight_dims = dims.try_into();
    let weight_dims = weight_dims
        .map_err(|dims: Vec<usize>| format!("weight_dims has {} numbers, not two", dims.len()))?;
    Ok(Box::new(WeightMultiply { weight_dims }))
}

impl CtrLayer for WeightMultiply {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let (bottom, [count, dim]) = (one(bottoms)?, self.weight_dims);
        if columns(bottom)? != count {
            return Err(format!("its bottom is {bottom}, but weight_dims begins with {count}"));
        }
        let width = count.checked_mul(dim).ok_or("weight_dims are too large")?;
        Ok(vec![CtrShape::new(bottom.rows(), &[width])?])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for WeightMultiply {
    fn params(&self, _bottoms: &[CtrShape]) -> Vec<CtrParam> {
        vec![CtrParam::trained("weight", self.weight_dims)]
    }

    fn place(&self, placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        let weights = placing.ops.place_vector(placing.params.get("weight"))?;
        Ok(Box::new(PlacedWeights { weights }))
    }
}

struct PlacedWeights {
    weights: Vector,
}

impl PlacedCtrLayer for PlacedWeights {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        ops.weight_multiply(bottoms[0], &self.weights, tops[0].reborrow());
    }
}

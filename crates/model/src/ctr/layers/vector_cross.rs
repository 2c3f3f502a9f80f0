//! A cross network whose weights are vectors: `x[l + 1] = x[0] * (x[l] . w[l]) + x[l] + b[l]`.

use terrace_device::{View, ViewMut};
use terrace_kernels::{MultiCrossArgs, Ops, Vector};

use super::shape_rules::{columns, one};
use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_param::CtrParam;
use crate::ctr::ctr_shape::CtrShape;
use crate::error::Error;

pub(super) struct VectorCross {
    pub layers: usize,
}

impl CtrLayer for VectorCross {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let bottom = one(bottoms)?;
        columns(bottom)?;
        Ok(vec![bottom.clone()])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for VectorCross {
    fn params(&self, bottoms: &[CtrShape]) -> Vec<CtrParam> {
        let shape = [1, bottoms[0].last()];
        let of_layer = |layer| {
            ["weight", "bias"].map(|name| CtrParam::trained(format!("{layer}.{name}"), shape))
        };
        (0..self.layers).flat_map(of_layer).collect()
    }

    fn place(&self, placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        let all = |name: &str| {
            let layers =
                (0..self.layers).map(|layer| placing.params.get(&format!("{layer}.{name}")));
            placing.ops.place_vector(&layers.collect::<Vec<_>>().concat())
        };
        Ok(Box::new(PlacedCross { weights: all("weight")?, biases: all("bias")? }))
    }
}

struct PlacedCross {
    weights: Vector,
    biases: Vector,
}

impl PlacedCtrLayer for PlacedCross {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        let args = MultiCrossArgs { x: bottoms[0], weights: &self.weights, biases: &self.biases };
        ops.multi_cross(&args, tops[0].reborrow());
    }
}

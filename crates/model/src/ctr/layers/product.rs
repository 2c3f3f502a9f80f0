//! A product with weights, and perhaps a bias: what InnerProduct, MLP and MultiCross are made of.
//!
//! HugeCTR has weights as `[inputs, outputs]`; they are placed as `[outputs, inputs]`.

use terrace_device::{View, ViewMut};
use terrace_kernels::{BiasedWeight, CtrActivation, Linear, Ops};

use super::shape_rules::one;
use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_param::{CtrParam, CtrParamKind};
use crate::ctr::ctr_shape::CtrShape;
use crate::error::Error;
use crate::hstu::owned_matrix;

pub(super) struct Product {
    pub outputs: usize,
    /// The parameter's name.
    pub weight: String,
    pub bias: ProductBias,
}

/// The name of the bias, and whether it is added.
pub(super) enum ProductBias {
    None,
    Added(String),
    /// It stands in HugeCTR's file all the same.
    Unused(String),
}

impl Product {
    /// With the names of a layer that is one product.
    pub fn plain(outputs: usize) -> Self {
        Product { outputs, weight: "weight".into(), bias: ProductBias::Added("bias".into()) }
    }
}

impl CtrLayer for Product {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let bottom = one(bottoms)?;
        let (columns, most) = (bottom.last(), Ops::MAX_COLUMNS);
        if most < columns {
            return Err(format!("its bottom {bottom} has {columns} inputs; at most {most} can be"));
        }
        Ok(vec![bottom.with_last(self.outputs)?])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for Product {
    fn params(&self, bottoms: &[CtrShape]) -> Vec<CtrParam> {
        let weight = CtrParam::trained(&self.weight, [bottoms[0].last(), self.outputs]);
        let bias =
            |name: &String, kind| CtrParam { name: name.clone(), shape: [1, self.outputs], kind };
        match &self.bias {
            ProductBias::None => vec![weight],
            ProductBias::Added(name) => vec![weight, bias(name, CtrParamKind::Trained)],
            ProductBias::Unused(name) => vec![weight, bias(name, CtrParamKind::Unused)],
        }
    }

    fn bottom_rows(&self, bottom: &CtrShape) -> usize {
        bottom.numbers() / bottom.last()
    }

    fn top_rows(&self, top: &CtrShape) -> usize {
        top.numbers() / top.last()
    }

    fn multiplies(&self) -> bool {
        true
    }

    fn activates(&self) -> bool {
        true
    }

    fn place(&self, placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        let columns = placing.product_columns(placing.bottoms[0].last());
        let mut across = vec![0.0; self.outputs * columns];
        let weight = placing.params.get(&self.weight);
        for (column, weights) in weight.chunks_exact(self.outputs).enumerate() {
            for (output, weight) in weights.iter().enumerate() {
                across[output * columns + column] = *weight;
            }
        }
        let weight = owned_matrix(&across, [self.outputs, columns])?;
        let bias = match &self.bias {
            ProductBias::Added(name) => Some(placing.params.get(name).to_vec()),
            ProductBias::None | ProductBias::Unused(_) => None,
        };
        let linear = placing.ops.place_product(BiasedWeight { weight, bias })?;
        Ok(Box::new(PlacedProduct { linear, activation: placing.activation }))
    }
}

struct PlacedProduct {
    linear: Linear,
    activation: Option<CtrActivation>,
}

impl PlacedCtrLayer for PlacedProduct {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        ops.project_activated(bottoms[0], &self.linear, self.activation, tops[0].reborrow());
    }
}

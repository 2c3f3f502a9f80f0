//! MultiCross: a cross network, whose weights are vectors, or with a projection matrices of low
//! rank.

use super::cross_step::CrossStep;
use super::product::{Product, ProductBias};
use super::shape_rules::{columns, one};
use super::vector_cross::VectorCross;
use crate::ctr::ctr_layer::{CtrForm, CtrLayer, CtrSource, CtrSubLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;

/// More would be a mistake in the file.
const MAX_LAYERS: usize = 256;

/// `x[l + 1] = x[0] * (x[l] U[l] V[l] + b[l]) + x[l]`
struct LowRankCross {
    layers: usize,
    projection_dim: usize,
}

pub(super) fn read(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    let fields = fields.object("mc_param")?;
    let layers = fields.count("num_layers")?;
    if !(1..=MAX_LAYERS).contains(&layers) {
        return Err(format!("mc_param.num_layers is {layers}, but must be 1 to {MAX_LAYERS}"));
    }
    let projection_dim = match fields.has("projection_dim") {
        true => fields.count("projection_dim")?,
        false => 0,
    };
    match projection_dim {
        0 => Ok(Box::new(VectorCross { layers })),
        projection_dim => Ok(Box::new(LowRankCross { layers, projection_dim })),
    }
}

impl CtrLayer for LowRankCross {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let bottom = one(bottoms)?;
        columns(bottom)?;
        let products = [bottom.clone(), bottom.with_last(self.projection_dim)?];
        for x in products {
            Product::plain(1).shapes(&[x])?;
        }
        Ok(vec![bottom.clone()])
    }

    fn form(&self, bottoms: &[CtrShape]) -> CtrForm<'_> {
        let mut layers = Vec::with_capacity(3 * self.layers);
        let mut x = CtrSource::Bottom(0);
        for layer in 0..self.layers {
            let first = layers.len();
            let down = Product {
                outputs: self.projection_dim,
                weight: format!("{layer}.U"),
                bias: ProductBias::None,
            };
            layers.push(CtrSubLayer { layer: Box::new(down), bottoms: vec![x] });
            let up = Product {
                outputs: bottoms[0].last(),
                weight: format!("{layer}.V"),
                bias: ProductBias::Added(format!("{layer}.bias")),
            };
            let down = CtrSource::Made(first);
            layers.push(CtrSubLayer { layer: Box::new(up), bottoms: vec![down] });
            let bottoms = vec![CtrSource::Bottom(0), CtrSource::Made(first + 1), x];
            layers.push(CtrSubLayer { layer: Box::new(CrossStep), bottoms });
            x = CtrSource::Made(first + 2);
        }
        CtrForm::Graph(layers)
    }
}

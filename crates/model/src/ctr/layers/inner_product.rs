//! InnerProduct, and FusedInnerProduct, which is one with a ReLU.

use terrace_kernels::CtrActivation;

use super::activation::Activation;
use super::product::Product;
use crate::ctr::ctr_layer::{CtrForm, CtrLayer, CtrSource, CtrSubLayer, CtrWiring};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;

pub(super) fn read(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    Ok(Box::new(Product::plain(fields.object("fc_param")?.count("num_output")?)))
}

pub(super) fn read_fused(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    let outputs = fields.object("fc_param")?.count("num_output")?;
    let is_rectified = match fields.has("activation") {
        true => is_rectified(fields.text("activation")?)?,
        false => true,
    };
    Ok(Box::new(FusedInnerProduct { outputs, is_rectified }))
}

/// Whether a name of HugeCTR's functions after products is that of ReLU; the other one is none.
pub(super) fn is_rectified(name: &str) -> Result<bool, String> {
    match name {
        "Relu" | "ReLU" => Ok(true),
        "None" | "Non" => Ok(false),
        other => Err(format!("activation {other:?} is not known; Relu and None are")),
    }
}

struct FusedInnerProduct {
    outputs: usize,
    is_rectified: bool,
}

impl CtrLayer for FusedInnerProduct {
    /// In training three more tensors go from one such layer to the next.
    fn wiring(&self, _given: CtrWiring) -> CtrWiring {
        CtrWiring { bottoms: 1, tops: 1 }
    }

    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        Product::plain(self.outputs).shapes(bottoms)
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        let product = CtrSubLayer {
            layer: Box::new(Product::plain(self.outputs)),
            bottoms: vec![CtrSource::Bottom(0)],
        };
        let relu = CtrSubLayer {
            layer: Box::new(Activation(CtrActivation::Relu)),
            bottoms: vec![CtrSource::Made(0)],
        };
        let layers = [Some(product), self.is_rectified.then_some(relu)];
        CtrForm::Graph(layers.into_iter().flatten().collect())
    }
}

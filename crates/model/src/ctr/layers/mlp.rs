//! MLP: several products one after the other, each with its function.

use terrace_kernels::CtrActivation;

use super::activation::Activation;
use super::inner_product::is_rectified;
use super::product::{Product, ProductBias};
use super::shape_rules::columns;
use crate::ctr::ctr_layer::{CtrForm, CtrLayer, CtrSource, CtrSubLayer, CtrWiring};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;

struct Mlp {
    layers: Vec<MlpLayer>,
}

struct MlpLayer {
    outputs: usize,
    is_rectified: bool,
    has_bias: bool,
}

pub(super) fn read(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    let fields = fields.object("mlp_param")?;
    let outputs = fields.counts("num_outputs")?;
    let count = outputs.len();
    if count == 0 {
        return Err("mlp_param.num_outputs is empty".into());
    }
    let rectified = match (fields.has("activations"), fields.has("activation")) {
        (true, _) => fields.texts("activations")?.into_iter().map(is_rectified).collect(),
        (false, true) => is_rectified(fields.text("activation")?).map(|is| vec![is; count]),
        (false, false) => Ok(vec![true; count]),
    }?;
    let biases = match (fields.has("biases"), fields.has("use_bias")) {
        (true, _) => fields.flags("biases")?,
        (false, true) => vec![fields.flag("use_bias")?; count],
        (false, false) => vec![true; count],
    };
    for (what, found) in [("activations", rectified.len()), ("biases", biases.len())] {
        if found != count {
            return Err(format!("mlp_param has {count} num_outputs and {found} {what}"));
        }
    }
    let layer = |((outputs, is_rectified), has_bias)| MlpLayer { outputs, is_rectified, has_bias };
    let layers = outputs.into_iter().zip(rectified).zip(biases).map(layer).collect();
    Ok(Box::new(Mlp { layers }))
}

impl CtrLayer for Mlp {
    /// In training another bottom takes gradients.
    fn wiring(&self, given: CtrWiring) -> CtrWiring {
        CtrWiring { bottoms: 1, ..given }
    }

    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let [bottom] = bottoms else { return Err("it takes one bottom".into()) };
        columns(bottom)?;
        let mut shape = bottom.clone();
        for layer in &self.layers {
            let [next] = Product::plain(layer.outputs).shapes(&[shape])?.try_into().expect("a top");
            shape = next;
        }
        Ok(vec![shape])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        let mut layers: Vec<CtrSubLayer> = Vec::new();
        let mut source = CtrSource::Bottom(0);
        let mut add = |layer: Box<dyn CtrLayer>| {
            layers.push(CtrSubLayer { layer, bottoms: vec![source] });
            source = CtrSource::Made(layers.len() - 1);
        };
        for (index, layer) in self.layers.iter().enumerate() {
            let bias = format!("{index}.bias");
            add(Box::new(Product {
                outputs: layer.outputs,
                weight: format!("{index}.weight"),
                bias: match layer.has_bias {
                    true => ProductBias::Added(bias),
                    false => ProductBias::Unused(bias),
                },
            }));
            if layer.is_rectified {
                add(Box::new(Activation(CtrActivation::Relu)));
            }
        }
        CtrForm::Graph(layers)
    }
}

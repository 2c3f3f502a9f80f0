//! ReLU, Sigmoid and ELU: a function of each number.

use terrace_kernels::CtrActivation;

use super::shape_rules::one;
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;

pub(super) struct Activation(pub CtrActivation);

pub(super) fn read_relu(_fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    Ok(Box::new(Activation(CtrActivation::Relu)))
}

pub(super) fn read_sigmoid(_fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    Ok(Box::new(Activation(CtrActivation::Sigmoid)))
}

pub(super) fn read_elu(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    let alpha = fields.object("elu_param")?.number("alpha")?;
    Ok(Box::new(Activation(CtrActivation::Elu { alpha })))
}

impl CtrLayer for Activation {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        Ok(vec![one(bottoms)?.clone()])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Activation(self.0)
    }
}

//! Layers that change nothing when a model is served: Dropout and Cast.

use super::shape_rules::one;
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;

struct Same;

pub(super) fn read(_fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    Ok(Box::new(Same))
}

impl CtrLayer for Same {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        Ok(vec![one(bottoms)?.clone()])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Same
    }
}

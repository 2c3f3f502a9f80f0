//! PReLU_Dice: a rectifier whose threshold is where the batch is.
//!
//! HugeCTR takes the mean and the variance of the batch that it computes, when it serves too. So a
//! sample's result depends on the samples that come with it.

use terrace_device::{View, ViewMut};
use terrace_kernels::{DiceRule, Ops};

use super::shape_rules::{columns, one};
use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;
use crate::error::Error;

struct Dice {
    rule: DiceRule,
}

pub(super) fn read(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    let fields = fields.object("prelu_dice_param")?;
    // HugeCTR writes the first of the names, and has read the others too.
    let alpha = if fields.has("alpha") { "alpha" } else { "elu_alpha" };
    let eps = if fields.has("eps") { "eps" } else { "epsilon" };
    let rule = DiceRule { alpha: fields.number(alpha)?, eps: fields.number(eps)? };
    match rule.eps >= 0.0 {
        true => Ok(Box::new(Dice { rule })),
        false => Err(format!("prelu_dice_param.{eps} is {}, but must not be negative", rule.eps)),
    }
}

impl CtrLayer for Dice {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let bottom = one(bottoms)?;
        columns(bottom)?;
        Ok(vec![bottom.clone()])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for Dice {
    fn mixes_samples(&self) -> bool {
        true
    }

    fn place(&self, _placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        Ok(Box::new(PlacedDice { rule: self.rule }))
    }
}

struct PlacedDice {
    rule: DiceRule,
}

impl PlacedCtrLayer for PlacedDice {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        ops.dice(bottoms[0], self.rule, tops[0].reborrow());
    }
}

//! BatchNorm, with the mean and the variance that training has seen.

use terrace_device::{View, ViewMut};
use terrace_kernels::{Ops, ScaleShiftArgs, Vector};

use super::shape_rules::{columns, one};
use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_param::{CtrParam, CtrParamKind};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;
use crate::error::Error;

/// HugeCTR's default.
pub(super) const EPS: f32 = 1e-5;

struct BatchNorm {
    eps: f32,
}

pub(super) fn read(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    Ok(Box::new(BatchNorm { eps: read_eps(fields, "bn_param")? }))
}

/// Of a norm's options, or the default.
pub(super) fn read_eps(fields: &LayerFields<'_>, options: &str) -> Result<f32, String> {
    if !fields.has(options) {
        return Ok(EPS);
    }
    let fields = fields.object(options)?;
    let eps = if fields.has("eps") { fields.number("eps")? } else { EPS };
    match eps >= 0.0 {
        true => Ok(eps),
        false => Err(format!("{options}.eps is {eps}, but must not be negative")),
    }
}

impl CtrLayer for BatchNorm {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let bottom = one(bottoms)?;
        columns(bottom)?;
        Ok(vec![bottom.clone()])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for BatchNorm {
    fn params(&self, bottoms: &[CtrShape]) -> Vec<CtrParam> {
        let shape = [1, bottoms[0].last()];
        let statistic =
            |name: &str| CtrParam { name: name.into(), shape, kind: CtrParamKind::Statistic };
        vec![
            CtrParam::trained("gamma", shape),
            CtrParam::trained("beta", shape),
            statistic("running_mean"),
            statistic("running_var"),
        ]
    }

    fn place(&self, placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        let [gamma, beta, mean, var] =
            ["gamma", "beta", "running_mean", "running_var"].map(|name| placing.params.get(name));
        let scale: Vec<f32> =
            gamma.iter().zip(var).map(|(gamma, var)| gamma / (var + self.eps).sqrt()).collect();
        let means = mean.iter().zip(&scale).map(|(mean, scale)| mean * scale);
        let shift: Vec<f32> = beta.iter().zip(means).map(|(beta, mean)| beta - mean).collect();
        let [scale, shift] = [scale, shift].map(|values| placing.ops.place_vector(&values));
        Ok(Box::new(PlacedNorm { scale: scale?, shift: shift? }))
    }
}

struct PlacedNorm {
    scale: Vector,
    shift: Vector,
}

impl PlacedCtrLayer for PlacedNorm {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        let args = ScaleShiftArgs { x: bottoms[0], scale: &self.scale, shift: &self.shift };
        ops.scale_shift(&args, tops[0].reborrow());
    }
}

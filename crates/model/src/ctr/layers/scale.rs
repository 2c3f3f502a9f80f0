//! Scale: each number of a row several times (axis 0), or each row several times (axis 1).

use terrace_device::{View, ViewMut};
use terrace_kernels::{Ops, Repeated};

use super::shape_rules::{columns, one};
use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;
use crate::error::Error;

struct Scale {
    what: Repeated,
    factor: usize,
}

pub(super) fn read(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    let fields = fields.object("scale_param")?;
    let what = match fields.count("axis")? {
        0 => Repeated::Numbers,
        1 => Repeated::Rows,
        axis => return Err(format!("scale_param.axis is {axis}, but must be 0 or 1")),
    };
    Ok(Box::new(Scale { what, factor: fields.count("factor")? }))
}

impl CtrLayer for Scale {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let bottom = one(bottoms)?;
        let repeated = |count: usize| {
            let too_many = || format!("{count} times the factor {} is too many", self.factor);
            count.checked_mul(self.factor).ok_or_else(too_many)
        };
        let (rows, width) = (bottom.rows(), columns(bottom)?);
        Ok(vec![match self.what {
            Repeated::Numbers => CtrShape::new(rows, &[repeated(width)?])?,
            Repeated::Rows => CtrShape::new(repeated(rows)?, &[width])?,
        }])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for Scale {
    fn place(&self, _placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        Ok(Box::new(PlacedRepeat { what: self.what }))
    }
}

struct PlacedRepeat {
    what: Repeated,
}

impl PlacedCtrLayer for PlacedRepeat {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        ops.repeat(bottoms[0], self.what, tops[0].reborrow());
    }
}

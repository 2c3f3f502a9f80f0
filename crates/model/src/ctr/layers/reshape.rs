//! Reshape: the same numbers under another shape, or those of some slots.

use super::select_slots::SelectSlots;
use super::shape_rules::{one, vectors};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;

/// To rows of these extents, as many as there are.
struct Reshape {
    dims: Vec<usize>,
}

/// To one row for each row.
struct Flatten;

pub(super) fn read(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    if fields.has("selected") {
        let slots = fields.counts("selected")?;
        return match slots.is_empty() {
            true => Ok(Box::new(Flatten)),
            false => Ok(Box::new(SelectSlots { slots })),
        };
    }
    let leading_dim = match fields.has("leading_dim") {
        true => fields.count("leading_dim")?,
        false => 0,
    };
    let time_step = match fields.has("time_step") {
        true => fields.count("time_step")?,
        false => 0,
    };
    match (leading_dim, time_step) {
        (0, _) if fields.has("shape") => read_shape(&fields.integers("shape")?),
        (0, 0) => Ok(Box::new(Flatten)),
        (0, _) => Err("it has a time_step but no leading_dim".into()),
        (_, 0) => Ok(Box::new(Reshape { dims: vec![leading_dim] })),
        _ => Ok(Box::new(Reshape { dims: vec![time_step, leading_dim] })),
    }
}

/// The first extent must be left open, for it has the samples in it.
fn read_shape(shape: &[i64]) -> Result<Box<dyn CtrLayer>, String> {
    let dims = match shape {
        [..=-1, dims @ ..] => dims.iter().map(|dim| usize::try_from(*dim)).collect(),
        _ => return Err(format!("shape is {shape:?}, but must begin with -1, for the samples")),
    };
    let dims: Result<Vec<usize>, _> = dims;
    let dims = dims.map_err(|_| format!("shape is {shape:?}, but only the first can be -1"))?;
    Ok(Box::new(Reshape { dims }))
}

impl CtrLayer for Reshape {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let bottom = one(bottoms)?;
        let row = CtrShape::of_samples(&self.dims)?;
        let (found, wanted) = (bottom.numbers(), row.width());
        if !found.is_multiple_of(wanted) {
            return Err(format!(
                "its bottom {bottom} has {found} numbers for a sample, which are no rows of \
                 {wanted}"
            ));
        }
        Ok(vec![CtrShape::new(found / wanted, &self.dims)?])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Same
    }
}

impl CtrLayer for Flatten {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let bottom = one(bottoms)?;
        Ok(vec![CtrShape::new(bottom.rows(), &[bottom.width()])?])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Same
    }
}

impl CtrLayer for SelectSlots {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let bottom = one(bottoms)?;
        let [slots, dim] = vectors(bottom)?;
        if let Some(slot) = self.slots.iter().find(|slot| slots <= **slot) {
            return Err(format!("it selects slot {slot} of the {slots} of its bottom {bottom}"));
        }
        let width = self.slots.len().checked_mul(dim).ok_or("it selects too many slots")?;
        Ok(vec![CtrShape::of_samples(&[width])?])
    }

    fn form(&self, bottoms: &[CtrShape]) -> CtrForm<'_> {
        let dim = bottoms[0].last();
        match self.runs(dim).as_slice() {
            [run] => CtrForm::Columns { rows: 1, ranges: vec![run.clone()] },
            _ => CtrForm::Computes(self),
        }
    }
}

//! Concat: bottoms side by side along an axis; and FusedReshapeConcatGeneral, which does so with
//! the vectors of slots, each of which becomes a row.

use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;

struct Concat {
    /// 0 is that of the samples.
    axis: usize,
}

struct ConcatSlots;

pub(super) fn read(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    let axis = match fields.has("axis") {
        true => fields.count("axis")?,
        false => 1,
    };
    Ok(Box::new(Concat { axis }))
}

pub(super) fn read_general(_fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    Ok(Box::new(ConcatSlots))
}

impl CtrLayer for Concat {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let first = bottoms.first().ok_or("it has no bottoms")?;
        let rank = first.dims().len() + 1;
        if !(1..rank.min(3)).contains(&self.axis) {
            return Err(format!("axis {} of a bottom {first} cannot be joined", self.axis));
        }
        let joined = self.axis - 1;
        // All but the joined extent.
        let kept = |shape: &CtrShape| {
            let mut dims = shape.dims().to_vec();
            if joined < dims.len() {
                dims[joined] = 0;
            }
            (shape.rows(), dims)
        };
        if let Some(other) = bottoms.iter().find(|other| kept(other) != kept(first)) {
            return Err(format!(
                "its bottoms {first} and {other} differ in more than axis {}",
                self.axis
            ));
        }
        let mut dims = first.dims().to_vec();
        dims[joined] = bottoms.iter().map(|bottom| bottom.dims()[joined]).sum();
        Ok(vec![CtrShape::new(first.rows(), &dims)?])
    }

    fn form(&self, bottoms: &[CtrShape]) -> CtrForm<'_> {
        let outer: usize = bottoms[0].dims()[..self.axis - 1].iter().product();
        CtrForm::SideBySide { rows: bottoms[0].rows() * outer }
    }
}

impl CtrLayer for ConcatSlots {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let (slots, width) = slots_and_width(bottoms)?;
        Ok(vec![CtrShape::new(slots, &[width])?])
    }

    fn form(&self, bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::SideBySide { rows: bottoms[0].dims()[0] }
    }
}

/// Of bottoms `[samples, slots, numbers]`: the slots, and the numbers of all together.
pub(super) fn slots_and_width(bottoms: &[CtrShape]) -> Result<(usize, usize), String> {
    let first = bottoms.first().ok_or("it has no bottoms")?;
    let mut width: usize = 0;
    for bottom in bottoms {
        let fits = bottom.rows() == 1 && bottom.dims().len() == 2;
        if !fits || bottom.dims()[0] != first.dims()[0] {
            return Err(format!(
                "its bottoms {first} and {bottom} are not [samples, slots, numbers] of as many \
                 slots"
            ));
        }
        width = width.checked_add(bottom.last()).ok_or("its bottoms have too many numbers")?;
    }
    Ok((first.dims()[0], width))
}

//! FusedReshapeConcat: bottoms `[samples, slots, numbers]` side by side, where all slots but the
//! last become rows of the first top, and the last becomes the second.

use terrace_device::{View, ViewMut};
use terrace_kernels::Ops;

use super::concat::slots_and_width;
use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;
use crate::error::Error;

struct FusedReshapeConcat;

pub(super) fn read(_fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    Ok(Box::new(FusedReshapeConcat))
}

impl CtrLayer for FusedReshapeConcat {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let (slots, width) = slots_and_width(bottoms)?;
        if slots < 2 {
            return Err(format!("its bottom {} has one slot, but needs two", bottoms[0]));
        }
        Ok(vec![CtrShape::new(slots - 1, &[width])?, CtrShape::of_samples(&[width])?])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for FusedReshapeConcat {
    fn place(&self, placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        let dims = placing.bottoms.iter().map(CtrShape::last).collect();
        Ok(Box::new(PlacedSlots { dims }))
    }
}

struct PlacedSlots {
    /// Numbers of a slot of each bottom.
    dims: Vec<usize>,
}

impl PlacedCtrLayer for PlacedSlots {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        let [items, last] = tops else { unreachable!("two tops were made") };
        let (mut items, mut last) = (items.reborrow(), last.reborrow());
        for (bottom, dim) in bottoms.iter().zip(&self.dims) {
            let ([_, width], [_, rest]) = (bottom.dims(), items.dims());
            let [item, other_items] = items.split_columns([*dim, rest - dim]);
            let [end, other_last] = last.split_columns([*dim, rest - dim]);
            ops.arrange(bottom.columns(0, width - dim), item);
            ops.arrange(bottom.columns(width - dim, *dim), end);
            (items, last) = (other_items, other_last);
        }
    }
}

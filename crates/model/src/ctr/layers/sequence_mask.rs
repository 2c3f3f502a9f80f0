//! SequenceMask: which pairs of positions of two sequences both exist.

use terrace_device::{View, ViewMut};
use terrace_kernels::{Ops, SequenceMaskArgs};

use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;
use crate::error::Error;

struct SequenceMask {
    from: usize,
    to: usize,
}

pub(super) fn read(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    let from = fields.count("max_sequence_len_from")?;
    Ok(Box::new(SequenceMask { from, to: fields.count("max_sequence_len_to")? }))
}

impl CtrLayer for SequenceMask {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        if bottoms.len() != 2 {
            return Err(format!("it has {} bottoms, but takes two lengths", bottoms.len()));
        }
        if let Some(bottom) = bottoms.iter().find(|bottom| bottom.numbers() != 1) {
            return Err(format!("its bottom {bottom} is not one length for each sample"));
        }
        Ok(vec![CtrShape::of_samples(&[1, self.from, self.to])?])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for SequenceMask {
    fn place(&self, _placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        Ok(Box::new(PlacedMask { columns: self.to }))
    }
}

struct PlacedMask {
    columns: usize,
}

impl PlacedCtrLayer for PlacedMask {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        let args = SequenceMaskArgs { from: bottoms[0], to: bottoms[1], columns: self.columns };
        ops.sequence_mask(&args, tops[0].reborrow());
    }
}

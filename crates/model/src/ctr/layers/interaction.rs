//! Interaction: the dot products of all pairs of the bottom vector and the embeddings.

use terrace_device::{View, ViewMut};
use terrace_kernels::{Ops, interaction_width};

use super::shape_rules::{columns, vectors};
use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer, CtrWiring};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;
use crate::error::Error;

struct Interaction;

/// More would be a mistake in the file.
const MAX_VECTORS: usize = 1 << 12;

pub(super) fn read(_fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    Ok(Box::new(Interaction))
}

impl CtrLayer for Interaction {
    /// In training another top takes gradients.
    fn wiring(&self, given: CtrWiring) -> CtrWiring {
        CtrWiring { tops: given.tops.min(1), ..given }
    }

    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let [bottom, embeddings] = bottoms else {
            return Err(format!("it has {} bottoms, but takes two", bottoms.len()));
        };
        let (dim, [count, found]) = (columns(bottom)?, vectors(embeddings)?);
        if bottom.rows() != 1 || dim != found {
            return Err(format!("its bottoms {bottom} and {embeddings} have different vectors"));
        }
        if MAX_VECTORS < count {
            return Err(format!("it has {count} vectors; at most {MAX_VECTORS} are possible"));
        }
        Ok(vec![CtrShape::of_samples(&[interaction_width(dim, count)])?])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for Interaction {
    fn place(&self, _placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        Ok(Box::new(PlacedInteraction))
    }
}

struct PlacedInteraction;

impl PlacedCtrLayer for PlacedInteraction {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        ops.interact(bottoms[0], bottoms[1], tops[0].reborrow());
    }
}

//! MultiHeadAttention of queries, keys and values, perhaps with a mask.

use terrace_device::{View, ViewMut};
use terrace_kernels::{AttendSequencesArgs, MAX_SEQUENCE_KEYS, Ops};

use super::shape_rules::vectors;
use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;
use crate::error::Error;

struct MultiHeadAttention {
    heads: usize,
}

pub(super) fn read(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    let heads = match fields.has("num_attention_heads") {
        true => fields.count("num_attention_heads")?,
        false => 1,
    };
    Ok(Box::new(MultiHeadAttention { heads }))
}

impl CtrLayer for MultiHeadAttention {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let (queries, keys, values, mask) = match bottoms {
            [queries, keys, values] => (queries, keys, values, None),
            [queries, keys, values, mask] => (queries, keys, values, Some(mask)),
            _ => {
                let found = bottoms.len();
                return Err(format!(
                    "it has {found} bottoms, but takes queries, keys, values and perhaps a mask"
                ));
            }
        };
        let ([rows, hidden], [columns, key_hidden]) = (vectors(queries)?, vectors(keys)?);
        if keys != values || hidden != key_hidden {
            return Err(format!(
                "its queries are {queries}, its keys {keys} and its values {values}: vectors must \
                 be as wide, and keys as many as values"
            ));
        }
        if self.heads == 0 || !hidden.is_multiple_of(self.heads) {
            return Err(format!("its {hidden} numbers are not divided by {} heads", self.heads));
        }
        if MAX_SEQUENCE_KEYS < columns {
            return Err(format!("it has {columns} keys; at most {MAX_SEQUENCE_KEYS} can be"));
        }
        let wanted = CtrShape::of_samples(&[1, rows, columns])?;
        match mask.filter(|mask| **mask != wanted) {
            Some(mask) => Err(format!("its mask is {mask}, but must be {wanted}")),
            None => Ok(vec![queries.clone()]),
        }
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for MultiHeadAttention {
    fn place(&self, placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        let dim = placing.bottoms[0].last() / self.heads;
        Ok(Box::new(PlacedAttention { heads: self.heads, dim }))
    }
}

struct PlacedAttention {
    heads: usize,
    dim: usize,
}

impl PlacedCtrLayer for PlacedAttention {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        let args = AttendSequencesArgs {
            q: bottoms[0],
            k: bottoms[1],
            v: bottoms[2],
            mask: bottoms.get(3).copied(),
            heads: self.heads,
            dim: self.dim,
        };
        ops.attend_sequences(&args, tops[0].reborrow());
    }
}

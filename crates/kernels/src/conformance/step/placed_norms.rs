//! Norms of heads where the ops compute.

use crate::attention::attend_args::HeadNorms;
use crate::linear::vector::Vector;
use crate::ops::Ops;

pub(super) const EPS: f32 = 1e-5;

/// Of queries and of keys, if there are any.
pub(super) struct PlacedNorms(Option<[Vector; 2]>);

impl PlacedNorms {
    pub(super) fn new(ops: &Ops, norms: Option<&[Vec<f32>; 2]>) -> Self {
        let place = |norm: &Vec<f32>| ops.place_vector(norm).expect("a small vector");
        PlacedNorms(norms.map(|norms| norms.each_ref().map(place)))
    }

    pub(super) fn args(&self) -> HeadNorms<'_> {
        match &self.0 {
            Some([query, key]) => HeadNorms { query: Some(query), key: Some(key), eps: EPS },
            None => HeadNorms::NONE,
        }
    }
}

//! What several layers ask of their bottoms.

use crate::ctr::ctr_shape::CtrShape;

/// The only bottom.
pub(super) fn one(bottoms: &[CtrShape]) -> Result<&CtrShape, String> {
    match bottoms {
        [bottom] => Ok(bottom),
        _ => Err(format!("it has {} bottoms, but takes one", bottoms.len())),
    }
}

/// The numbers of a row of a bottom without further extents.
pub(super) fn columns(bottom: &CtrShape) -> Result<usize, String> {
    match bottom.dims() {
        [columns] => Ok(*columns),
        _ => Err(format!("its bottom is {bottom}, but must have two extents")),
    }
}

/// The extents of a bottom with one row for each sample, which are several vectors.
pub(super) fn vectors(bottom: &CtrShape) -> Result<[usize; 2], String> {
    match bottom.dims() {
        [count, dim] if bottom.rows() == 1 => Ok([*count, *dim]),
        _ => Err(format!("its bottom is {bottom}, but must be [samples, vectors, numbers]")),
    }
}

/// The shape that all bottoms have; there are at least two.
pub(super) fn all_equal(bottoms: &[CtrShape]) -> Result<&CtrShape, String> {
    let [first, others @ ..] = bottoms else { return Err("it has no bottoms".into()) };
    if others.is_empty() {
        return Err("it has one bottom, but takes two or more".into());
    }
    match others.iter().find(|other| *other != first) {
        Some(other) => Err(format!("its bottoms are {first} and {other}, but must be the same")),
        None => Ok(first),
    }
}

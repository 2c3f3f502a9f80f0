//! ReduceSum and ReduceMean: over one axis, which stays with an extent of 1.

use terrace_device::{View, ViewMut};
use terrace_kernels::{Ops, Reduction};

use super::shape_rules::one;
use crate::ctr::ctr_compute::{CtrCompute, CtrPlacing, PlacedCtrLayer};
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;
use crate::error::Error;

struct Reduce {
    kind: Reduction,
    axis: usize,
}

pub(super) fn read_sum(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    read(fields, Reduction::Sum)
}

pub(super) fn read_mean(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    read(fields, Reduction::Mean)
}

fn read(fields: &LayerFields<'_>, kind: Reduction) -> Result<Box<dyn CtrLayer>, String> {
    match fields.count("axis")? {
        0 => Err("axis 0 is that of the samples, which do not meet when a model is served".into()),
        axis => Ok(Box::new(Reduce { kind, axis })),
    }
}

impl Reduce {
    /// Rows of a sample before the axis.
    fn outer(&self, shape: &CtrShape) -> usize {
        shape.rows() * shape.dims()[..self.axis - 1].iter().product::<usize>()
    }
}

impl CtrLayer for Reduce {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let bottom = one(bottoms)?;
        let mut dims = bottom.dims().to_vec();
        match dims.get_mut(self.axis - 1) {
            Some(dim) => *dim = 1,
            None => return Err(format!("its bottom {bottom} has no axis {}", self.axis)),
        }
        Ok(vec![CtrShape::new(bottom.rows(), &dims)?])
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for Reduce {
    fn bottom_rows(&self, bottom: &CtrShape) -> usize {
        self.outer(bottom)
    }

    fn top_rows(&self, top: &CtrShape) -> usize {
        self.outer(top)
    }

    fn place(&self, _placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        Ok(Box::new(PlacedReduce { kind: self.kind }))
    }
}

struct PlacedReduce {
    kind: Reduction,
}

impl PlacedCtrLayer for PlacedReduce {
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        ops.reduce_rows(bottoms[0], self.kind, tops[0].reborrow());
    }
}

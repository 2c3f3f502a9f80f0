//! The gradients of all trained arrays.

use std::ops::Range;

use terrace_device::ViewMut;
use terrace_kernels::TuneOps;

use super::parameter::{ParameterId, ParameterInfo};
use crate::error::Error;
use crate::tensor::Tensor;

pub struct Gradients {
    tensors: Vec<Tensor>,
}

impl Gradients {
    /// None of anything.
    pub fn zeros(ops: &TuneOps<'_>, parameters: &[ParameterInfo]) -> Result<Self, Error> {
        let zeros = |info: &ParameterInfo| match info.shape[..] {
            [count] => Tensor::zeros(ops, "gradients", [count]),
            [rows, columns] => Tensor::zeros(ops, "gradients", [rows, columns]),
            _ => unreachable!("parameters are vectors and matrices"),
        };
        Ok(Gradients { tensors: parameters.iter().map(zeros).collect::<Result<_, _>>()? })
    }

    pub fn clear(&mut self) {
        self.tensors.iter_mut().for_each(|tensor| tensor.numbers_mut::<f32>().fill(0.0));
    }

    /// Adds those of another rank.
    pub(crate) fn add(&mut self, other: &Gradients) {
        for (sum, added) in self.tensors.iter_mut().zip(&other.tensors) {
            let added = added.numbers::<f32>();
            sum.numbers_mut::<f32>().iter_mut().zip(added).for_each(|(sum, x)| *sum += x);
        }
    }

    pub(crate) fn scale(&mut self, factor: f32) {
        self.tensors.iter_mut().for_each(|tensor| {
            tensor.numbers_mut::<f32>().iter_mut().for_each(|x| *x *= factor);
        });
    }

    pub fn numbers(&self, id: ParameterId) -> &[f32] {
        self.tensors[id.0].numbers()
    }

    pub fn numbers_mut(&mut self, id: ParameterId) -> &mut [f32] {
        self.tensors[id.0].numbers_mut()
    }

    /// Of all parameters, in their order.
    pub fn all(&self) -> impl Iterator<Item = &[f32]> {
        self.tensors.iter().map(Tensor::numbers)
    }

    /// Of parameters that follow one another.
    pub(crate) fn slices_mut(&mut self, ids: &Range<usize>) -> Vec<&mut [f32]> {
        self.tensors[ids.clone()].iter_mut().map(Tensor::numbers_mut).collect()
    }

    pub(crate) fn view_mut(&mut self, id: ParameterId) -> ViewMut<'_> {
        self.tensors[id.0].view_mut()
    }

    pub(crate) fn pair_mut(&mut self, ids: [ParameterId; 2]) -> [ViewMut<'_>; 2] {
        let pair = self.tensors.get_disjoint_mut(ids.map(|id| id.0));
        pair.expect("two parameters of the model").map(Tensor::view_mut)
    }
}

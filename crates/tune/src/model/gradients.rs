//! The gradients of all trained arrays.
//!
//! They are computed where the ops compute. Where the host does not reach them, what a pass has
//! added up there is taken into numbers of the host's when it is over, and begins again with none.

use std::ops::Range;

use terrace_device::{Device, ViewMut};
use terrace_kernels::TuneOps;

use super::parameter::{ParameterId, ParameterInfo};
use crate::error::Error;
use crate::tensor::Tensor;

pub struct Gradients {
    tensors: Vec<Tensor>,
    /// Of a device that the host does not reach.
    fetched: Option<Vec<Vec<f32>>>,
}

impl Gradients {
    /// None of anything.
    pub fn zeros(ops: &TuneOps<'_>, parameters: &[ParameterInfo]) -> Result<Self, Error> {
        let zeros = |info: &ParameterInfo| match info.shape[..] {
            [count] => Tensor::zeros(ops, "gradients", [count]),
            [rows, columns] => Tensor::zeros(ops, "gradients", [rows, columns]),
            _ => unreachable!("parameters are vectors and matrices"),
        };
        let tensors: Vec<Tensor> = parameters.iter().map(zeros).collect::<Result<_, _>>()?;
        let is_far = !matches!(ops.device(), Device::Cpu);
        let fetched =
            is_far.then(|| tensors.iter().map(|t| vec![0.0; t.shape().count()]).collect());
        Ok(Gradients { tensors, fetched })
    }

    /// The end of a pass.
    pub(crate) fn fetch(&mut self, ops: &TuneOps<'_>) -> Result<(), Error> {
        let Some(fetched) = &mut self.fetched else { return Ok(()) };
        for (sum, tensor) in fetched.iter_mut().zip(&mut self.tensors) {
            sum.iter_mut().zip(&*tensor.numbers(ops)?).for_each(|(sum, x)| *sum += x);
            ops.clear(tensor.view_mut());
        }
        Ok(())
    }

    pub fn clear(&mut self) {
        self.slices_mut(&(0..self.tensors.len())).into_iter().for_each(|numbers| numbers.fill(0.0));
    }

    /// Adds those of another rank.
    pub(crate) fn add(&mut self, other: &Gradients) {
        let sums = self.slices_mut(&(0..other.tensors.len()));
        for (sum, added) in sums.into_iter().zip(other.all()) {
            sum.iter_mut().zip(added).for_each(|(sum, x)| *sum += x);
        }
    }

    pub(crate) fn scale(&mut self, factor: f32) {
        let all = self.slices_mut(&(0..self.tensors.len()));
        all.into_iter().flatten().for_each(|x| *x *= factor);
    }

    pub fn numbers(&self, id: ParameterId) -> &[f32] {
        match &self.fetched {
            Some(fetched) => &fetched[id.0],
            None => self.tensors[id.0].on_host(),
        }
    }

    pub fn numbers_mut(&mut self, id: ParameterId) -> &mut [f32] {
        match &mut self.fetched {
            Some(fetched) => &mut fetched[id.0],
            None => self.tensors[id.0].on_host_mut(),
        }
    }

    /// Of all parameters, in their order.
    pub fn all(&self) -> impl Iterator<Item = &[f32]> {
        (0..self.tensors.len()).map(|id| self.numbers(ParameterId(id)))
    }

    /// Of parameters that follow one another, on the host.
    pub(crate) fn slices_mut(&mut self, ids: &Range<usize>) -> Vec<&mut [f32]> {
        match &mut self.fetched {
            Some(fetched) => {
                fetched[ids.clone()].iter_mut().map(|numbers| &mut numbers[..]).collect()
            }
            None => self.tensors[ids.clone()].iter_mut().map(Tensor::on_host_mut).collect(),
        }
    }

    pub(crate) fn view_mut(&mut self, id: ParameterId) -> ViewMut<'_> {
        self.tensors[id.0].view_mut()
    }

    pub(crate) fn pair_mut(&mut self, ids: [ParameterId; 2]) -> [ViewMut<'_>; 2] {
        let pair = self.tensors.get_disjoint_mut(ids.map(|id| id.0));
        pair.expect("two parameters of the model").map(Tensor::view_mut)
    }
}

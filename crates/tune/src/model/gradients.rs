//! The gradients of all trained arrays.
//!
//! They are computed where the ops compute. Where the host does not reach them, what passes have
//! added up there is taken into numbers of the host's, and begins again with none.
//! Those of weights that are away from the device come and go with them.

use std::ops::Range;

use terrace_device::{Device, ViewMut};
use terrace_kernels::{RankSums, TuneOps};

use super::parameter::{ParameterId, ParameterInfo};
use crate::error::Error;
use crate::tensor::Tensor;

pub struct Gradients {
    shapes: Vec<Vec<usize>>,
    /// Where the ops compute, but for those whose weights are away.
    tensors: Vec<Option<Tensor>>,
    /// Of a device that the host does not reach.
    fetched: Option<Vec<Vec<f32>>>,
}

impl Gradients {
    /// None of anything. `away`: parameters whose weights are away from where the ops compute.
    pub(super) fn without(
        ops: &TuneOps<'_>,
        parameters: &[ParameterInfo],
        away: impl Iterator<Item = ParameterId>,
    ) -> Result<Self, Error> {
        let mut gradients = Gradients::absent(ops, parameters);
        let mut is_here = vec![true; parameters.len()];
        away.for_each(|id| is_here[id.0] = false);
        let here = (0..is_here.len()).filter(|index| is_here[*index]).map(ParameterId);
        gradients.begin(ops, here)?;
        Ok(gradients)
    }

    /// Of parameters whose weights are all where the ops compute.
    #[cfg(test)]
    pub fn zeros(ops: &TuneOps<'_>, parameters: &[ParameterInfo]) -> Result<Self, Error> {
        Gradients::without(ops, parameters, std::iter::empty())
    }

    fn absent(ops: &TuneOps<'_>, parameters: &[ParameterInfo]) -> Self {
        let count = |info: &ParameterInfo| info.shape.iter().product();
        let is_far = !matches!(ops.device(), Device::Cpu);
        let fetched = || parameters.iter().map(|info| vec![0.0; count(info)]).collect();
        Gradients {
            shapes: parameters.iter().map(|info| info.shape.clone()).collect(),
            tensors: parameters.iter().map(|_| None).collect(),
            fetched: is_far.then(fetched),
        }
    }

    /// Takes memory where the ops compute; none of anything is there.
    pub(crate) fn begin(
        &mut self,
        ops: &TuneOps<'_>,
        ids: impl IntoIterator<Item = ParameterId>,
    ) -> Result<(), Error> {
        for ParameterId(index) in ids {
            let tensor = match self.shapes[index][..] {
                [count] => Tensor::zeros(ops, "gradients", [count]),
                [rows, columns] => Tensor::zeros(ops, "gradients", [rows, columns]),
                _ => unreachable!("parameters are vectors and matrices"),
            };
            self.tensors[index] = Some(tensor?);
        }
        Ok(())
    }

    /// Takes what was added up to the host, and gives the memory back.
    pub(crate) fn end(
        &mut self,
        ops: &TuneOps<'_>,
        ids: impl IntoIterator<Item = ParameterId>,
    ) -> Result<(), Error> {
        for ParameterId(index) in ids {
            let tensor = self.tensors[index].take().expect("it has begun");
            let fetched = self.fetched.as_mut().expect("weights are away from a device");
            add(&mut fetched[index], &tensor.numbers(ops)?);
        }
        Ok(())
    }

    /// What passes have added up where the ops compute comes to the host.
    pub(crate) fn fetch(&mut self, ops: &TuneOps<'_>) -> Result<(), Error> {
        let Some(fetched) = &mut self.fetched else { return Ok(()) };
        for (sum, tensor) in fetched.iter_mut().zip(&mut self.tensors) {
            let Some(tensor) = tensor else { continue };
            add(sum, &tensor.numbers(ops)?);
            ops.clear(tensor.view_mut());
        }
        Ok(())
    }

    /// Also what a pass that failed has left where the ops compute.
    pub fn clear(&mut self, ops: &TuneOps<'_>) {
        self.tensors.iter_mut().flatten().for_each(|tensor| ops.clear(tensor.view_mut()));
        self.fetched.iter_mut().flatten().for_each(|numbers| numbers.fill(0.0));
    }

    /// Adds those of another rank.
    pub(crate) fn add(&mut self, other: &Gradients) {
        let sums = self.slices_mut(&(0..other.shapes.len()));
        sums.into_iter().zip(other.all()).for_each(|(sum, added)| add(sum, added));
    }

    /// Those that are where ranks compute become the sums of all ranks.
    pub(crate) fn sum_on_devices(
        of_ranks: &mut [Gradients],
        sums: &mut RankSums,
    ) -> Result<(), Error> {
        for index in 0..of_ranks[0].shapes.len() {
            let arrays = of_ranks.iter_mut().map(|gradients| gradients.tensors[index].as_mut());
            if let Some(arrays) = arrays.collect::<Option<Vec<_>>>() {
                sums.sum(arrays.into_iter().map(Tensor::view_mut).collect())?;
            }
        }
        Ok(())
    }

    pub(crate) fn scale(&mut self, factor: f32) {
        let all = self.slices_mut(&(0..self.shapes.len()));
        all.into_iter().flatten().for_each(|x| *x *= factor);
    }

    pub fn numbers(&self, id: ParameterId) -> &[f32] {
        match &self.fetched {
            Some(fetched) => &fetched[id.0],
            None => self.tensor(id).on_host(),
        }
    }

    pub fn numbers_mut(&mut self, id: ParameterId) -> &mut [f32] {
        match &mut self.fetched {
            Some(fetched) => &mut fetched[id.0],
            None => self.tensors[id.0].as_mut().expect(HERE).on_host_mut(),
        }
    }

    /// Of all parameters, in their order.
    pub fn all(&self) -> impl Iterator<Item = &[f32]> {
        (0..self.shapes.len()).map(|id| self.numbers(ParameterId(id)))
    }

    /// Of parameters that follow one another, on the host.
    pub(crate) fn slices_mut(&mut self, ids: &Range<usize>) -> Vec<&mut [f32]> {
        match &mut self.fetched {
            Some(fetched) => {
                fetched[ids.clone()].iter_mut().map(|numbers| &mut numbers[..]).collect()
            }
            None => {
                let tensors = self.tensors[ids.clone()].iter_mut();
                tensors.map(|tensor| tensor.as_mut().expect(HERE).on_host_mut()).collect()
            }
        }
    }

    pub(crate) fn view_mut(&mut self, id: ParameterId) -> ViewMut<'_> {
        self.tensors[id.0].as_mut().expect(HERE).view_mut()
    }

    pub(crate) fn pair_mut(&mut self, ids: [ParameterId; 2]) -> [ViewMut<'_>; 2] {
        let pair = self.tensors.get_disjoint_mut(ids.map(|id| id.0));
        let pair = pair.expect("two parameters of the model");
        pair.map(|tensor| tensor.as_mut().expect(HERE).view_mut())
    }

    fn tensor(&self, id: ParameterId) -> &Tensor {
        self.tensors[id.0].as_ref().expect(HERE)
    }
}

const HERE: &str = "gradients are there while their weights are";

fn add(sum: &mut [f32], added: &[f32]) {
    sum.iter_mut().zip(added).for_each(|(sum, x)| *sum += x);
}

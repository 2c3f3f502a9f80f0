//! Trained arrays: each has a name, an extent and a number by which its gradient is found.

use std::sync::Arc;

use terrace_device::{Buffer, DType};
use terrace_kernels::{BiasedWeight, Linear, Matrix, TuneOps, WeightFormat};

use crate::error::Error;
use crate::tensor::Tensor;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParameterId(pub(super) usize);

impl ParameterId {
    pub(crate) fn of(index: usize) -> Self {
        ParameterId(index)
    }

    pub fn index(self) -> usize {
        self.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    pub name: String,
    pub shape: Vec<usize>,
}

/// The list of all trained arrays, in the order in which they were named.
#[derive(Debug, Default)]
pub(super) struct ParameterList {
    pub infos: Vec<ParameterInfo>,
}

impl ParameterList {
    pub fn add(&mut self, name: String, shape: &[usize]) -> ParameterId {
        self.infos.push(ParameterInfo { name, shape: shape.to_vec() });
        ParameterId(self.infos.len() - 1)
    }
}

/// A matrix, trained or not.
pub(crate) struct MatrixParameter {
    pub linear: Linear,
    pub id: Option<ParameterId>,
}

impl MatrixParameter {
    pub fn frozen(ops: &TuneOps<'_>, weight: Matrix) -> Result<Self, Error> {
        let linear = ops.place(BiasedWeight { weight, bias: None })?;
        Ok(MatrixParameter { linear, id: None })
    }

    /// A copy in f32, to be changed.
    pub fn trained(ops: &TuneOps<'_>, weight: &Matrix, id: ParameterId) -> Result<Self, Error> {
        Ok(MatrixParameter { linear: ops.place_trained(in_f32(weight)?)?, id: Some(id) })
    }

    /// A weight that is brought to the device when it is computed with; in f32 if it is trained.
    pub fn away(
        ops: &TuneOps<'_>,
        weight: &Matrix,
        id: Option<ParameterId>,
    ) -> Result<Self, Error> {
        let linear = match id {
            Some(_) => ops.place_away(in_f32(weight)?, true)?,
            None => ops.place_away(weight.clone(), false)?,
        };
        Ok(MatrixParameter { linear, id })
    }

    pub fn of(
        ops: &TuneOps<'_>,
        numbers: &[f32],
        rows: usize,
        id: Option<ParameterId>,
    ) -> Result<Self, Error> {
        let mut buffer = Buffer::zeroed(size_of_val(numbers), "trained weights")?;
        buffer.view_mut(DType::F32, [numbers.len()]).as_mut_slice().copy_from_slice(numbers);
        let columns = numbers.len() / rows;
        let weight = Matrix::new(WeightFormat::F32, rows, columns, Arc::new(buffer));
        let linear = ops.place_trained(weight)?;
        Ok(MatrixParameter { linear, id })
    }

    pub fn change(&mut self, ops: &TuneOps<'_>, f: &mut Change<'_>) -> Result<(), Error> {
        match self.id {
            Some(id) => Ok(ops.change(&mut self.linear, |weight| f(id, weight))?),
            None => Ok(()),
        }
    }
}

/// A copy in a buffer of its own.
fn in_f32(weight: &Matrix) -> Result<Matrix, Error> {
    let (rows, columns) = (weight.rows(), weight.columns());
    let mut buffer = Buffer::zeroed(rows * columns * DType::F32.bytes(), "trained weights")?;
    let mut numbers = buffer.view_mut(DType::F32, [rows * columns]);
    let all = numbers.as_mut_slice::<f32>();
    for (row, out) in all.chunks_exact_mut(columns).enumerate() {
        terrace_kernels::unpack_row(weight.format(), weight.row(row), out);
    }
    Ok(Matrix::new(WeightFormat::F32, rows, columns, Arc::new(buffer)))
}

/// A vector, trained or not.
pub(crate) struct VectorParameter {
    pub tensor: Tensor,
    pub id: Option<ParameterId>,
}

impl VectorParameter {
    pub fn of(ops: &TuneOps<'_>, numbers: &[f32], id: Option<ParameterId>) -> Result<Self, Error> {
        let tensor = Tensor::of(ops, "norms and biases", numbers, [numbers.len()])?;
        Ok(VectorParameter { tensor, id })
    }

    pub fn change(&mut self, ops: &TuneOps<'_>, f: &mut Change<'_>) -> Result<(), Error> {
        match self.id {
            Some(id) => self.tensor.change(ops, |numbers| f(id, numbers)),
            None => Ok(()),
        }
    }
}

/// What is done to each trained array.
pub(crate) type Change<'a> = dyn FnMut(ParameterId, &mut [f32]) + 'a;

//! A branch that is computed beside its product.

use std::ops::Range;
use std::sync::Arc;

use terrace_device::{Buffer, DType, View, ViewMut};
use terrace_kernels::{
    BiasedWeight, BranchArgs, BranchForm, Linear, LoraBranch, Matrix, Ops, Vector, WeightFormat,
    row_norms_on_host,
};

use crate::adapter::{AdapterBranch, BranchVector, LORA_NORM_EPS};
use crate::decoder::layer_rows::LayerRows;
use crate::error::Error;

pub(super) struct PlacedBranch {
    /// Of the products that lie side by side, the outputs that it changes.
    outputs: Range<usize>,
    a: Linear,
    b: Linear,
    scale: f32,
    form: PlacedForm,
}

enum PlacedForm {
    Added,
    Normed(Vector),
    Scaled { factors: Vector, bias: Option<Vector> },
}

impl PlacedBranch {
    /// Takes the product's bias where that must come behind the branch. `first` is the product's
    /// first output. `None` where a row has no direction that it could keep.
    pub fn place(
        ops: &Ops,
        branch: &AdapterBranch,
        product: &mut BiasedWeight,
        first: usize,
    ) -> Result<Option<Self>, Error> {
        let branches = ops.branches()?;
        let scale = branch.scale();
        let a = branches.place(matrix(&branch.a, branch.rank)?)?;
        let b = branches.place(matrix(&branch.b, product.weight.rows())?)?;
        let form = match &branch.vector {
            BranchVector::None => PlacedForm::Added,
            BranchVector::Norm(weight) => PlacedForm::Normed(ops.place_vector(weight)?),
            BranchVector::Lengths(lengths) => {
                let factors = row_factors(ops, &product.weight, branch, lengths);
                if !factors.iter().all(|factor| factor.is_finite()) {
                    return Ok(None);
                }
                let bias = product.bias.take().map(|bias| ops.place_vector(&bias)).transpose()?;
                PlacedForm::Scaled { factors: ops.place_vector(&factors)?, bias }
            }
        };
        let outputs = first..first + product.weight.rows();
        Ok(Some(PlacedBranch { outputs, a, b, scale, form }))
    }

    pub fn rank(&self) -> usize {
        self.a.rows()
    }

    pub fn bytes(&self) -> usize {
        self.a.bytes() + self.b.bytes()
    }

    /// x: act `[tokens, columns]` · out: of all products side by side
    pub fn apply(&self, ops: &Ops, x: View<'_>, inner: &mut LayerRows<'_>, out: ViewMut<'_>) {
        let branches = ops.branches().expect("it was placed on a device that has them");
        let [_, width] = out.dims();
        let Range { start, end } = self.outputs;
        let [_, out, _] = out.split_columns([start, end - start, width - end]);
        branches.apply(BranchArgs {
            x,
            branch: LoraBranch { a: &self.a, b: &self.b, scale: self.scale },
            form: match &self.form {
                PlacedForm::Added => BranchForm::Added,
                PlacedForm::Normed(weight) => BranchForm::Normed { weight, eps: LORA_NORM_EPS },
                PlacedForm::Scaled { factors, bias } => {
                    BranchForm::Scaled { factors, bias: bias.as_ref() }
                }
            },
            inner: inner.of_width(self.rank()),
            out,
        });
    }
}

/// What brings each row of weight and branch together to its length.
fn row_factors(ops: &Ops, weight: &Matrix, branch: &AdapterBranch, lengths: &[f32]) -> Vec<f32> {
    let matrices = [&branch.a[..], &branch.b[..]];
    let mut factors = row_norms_on_host(ops.workers(), weight, matrices, branch.scale());
    factors.iter_mut().zip(lengths).for_each(|(factor, length)| *factor = length / *factor);
    factors
}

/// Of as many rows.
fn matrix(numbers: &[f32], rows: usize) -> Result<Matrix, Error> {
    let mut buffer = Buffer::zeroed(size_of_val(numbers), "branches of an adapter")?;
    buffer.view_mut(DType::F32, [numbers.len()]).as_mut_slice().copy_from_slice(numbers);
    Ok(Matrix::new(WeightFormat::F32, rows, numbers.len() / rows, Arc::new(buffer)))
}

//! The ops that a model is tuned with, on a GPU: those that are more than one kernel.
//!
//! Gradients are f32; where a product takes one, it is rounded to the activations' type first, in
//! memory of the pool.

use std::ops::Range;

use terrace_device::{DType, PooledBuffer, View, ViewMut};

use super::cuda_ops::CudaOps;
use super::tune_kernels::TuneKernels;
use crate::attention::replay::ReplayGradients;
use crate::error::Error;
use crate::linear::linear::Linear;
use crate::linear::lora::{LoraBranch, LoraGradients};
use crate::linear::matmul::device_matrix::DeviceMatrix;
use crate::linear::matmul::matrix_product::{MatrixProduct, Operand};
use crate::linear::matmul::product::Epilogue;

#[derive(Clone, Copy)]
pub(crate) struct CudaTune<'a> {
    pub ops: &'a CudaOps,
    pub kernels: &'a TuneKernels,
}

/// Rows of the activations' type: those that were given, or a copy.
pub(crate) enum ActRows<'a> {
    Given(View<'a>),
    Rounded { memory: PooledBuffer, dtype: DType, rows: usize, columns: usize, stride: usize },
}

/// Rows of copies begin at whole 16 bytes, as tensor cores want them.
const WHOLE_ROWS: usize = 8;

impl ActRows<'_> {
    pub fn view(&self) -> View<'_> {
        match self {
            ActRows::Given(view) => *view,
            ActRows::Rounded { memory, dtype, rows, columns, stride } => {
                memory.buffer().view(*dtype, [*rows, *stride]).columns(0, *columns)
            }
        }
    }
}

impl CudaTune<'_> {
    /// x: act `[tokens, columns]` · out: act or f32
    pub fn project(&self, x: View<'_>, weight: &Linear, out: ViewMut<'_>) {
        self.ops.project(x, weight.cuda(), Epilogue::None, out);
    }

    /// `d_x += d_out * weight`
    pub fn input_gradient(
        &self,
        d_out: View<'_>,
        weight: &Linear,
        d_x: ViewMut<'_>,
    ) -> Result<(), Error> {
        let d_out = self.rounded(d_out)?;
        self.through_rows(d_out.view(), weight.cuda().only(), 0..weight.rows(), d_x);
        Ok(())
    }

    /// `d_weight += scale * d_out^T * x`
    pub fn weight_gradient(
        &self,
        d_out: View<'_>,
        x: View<'_>,
        scale: f32,
        d_weight: ViewMut<'_>,
    ) -> Result<(), Error> {
        let (d_out, x) = (self.rounded(d_out)?, self.rounded(x)?);
        let (left, right) = (Operand::columns(d_out.view()), Operand::columns(x.view()));
        self.multiply(&MatrixProduct { left, right, scale, adds: true, out: d_weight });
        Ok(())
    }

    /// x: act · inner: act `[tokens, rank]`
    pub fn add_branch(
        &self,
        x: View<'_>,
        branch: LoraBranch<'_>,
        inner: ViewMut<'_>,
        out: ViewMut<'_>,
    ) {
        self.add_branch_rows(x, branch, &(0..branch.b.rows()), inner, out);
    }

    /// inner, d_inner: act `[tokens, rank]`
    pub fn lora_gradients(
        &self,
        branch: LoraBranch<'_>,
        args: LoraGradients<'_>,
    ) -> Result<(), Error> {
        let (x, d_out) = (self.rounded(args.x)?, self.rounded(args.d_out)?);
        let rows = 0..branch.b.rows();
        let args = LoraGradients { x: x.view(), d_out: d_out.view(), ..args };
        self.branch_gradients(branch, &rows, args);
        Ok(())
    }

    /// norms: f32 `[rows]`, of the rows of `weight + scale * b * a`
    pub fn branch_row_norms(
        &self,
        weight: &Linear,
        branch: LoraBranch<'_>,
        mut norms: ViewMut<'_>,
    ) -> Result<(), Error> {
        let [a, b] = [branch.a, branch.b];
        let (a_memory, b_memory) = (self.numbers_on_device(a)?, self.numbers_on_device(b)?);
        let a = a_memory.buffer().view(DType::F32, [a.rows(), a.columns()]);
        let b = b_memory.buffer().view(DType::F32, [b.rows(), b.columns()]);
        let matrix = weight.cuda().only();
        self.ops.products.for_rows(matrix, 0..matrix.rows(), |rows, weights| {
            let norms = norms.reborrow().rows(rows.clone());
            self.kernels.rows.row_norms.row_norms(weights, a, b.rows(rows), branch.scale, norms);
        });
        Ok(())
    }

    pub fn attend_gradients(&self, args: ReplayGradients<'_>) -> Result<(), Error> {
        self.kernels.replay.attend_gradients(args, &self.kernels.memory)
    }

    /// `out = x * weights^T` for some of a weight's rows · out: act or f32
    pub fn project_rows(
        &self,
        x: View<'_>,
        matrix: &DeviceMatrix,
        rows: &Range<usize>,
        mut out: ViewMut<'_>,
    ) {
        self.ops.products.for_rows(matrix, rows.clone(), |part, weights| {
            let (first, rest) = (part.start - rows.start, rows.end - part.end);
            let [_, out, _] = out.reborrow().split_columns([first, part.len(), rest]);
            let (left, right) = (Operand::rows(x), Operand::rows(weights));
            self.multiply(&MatrixProduct { left, right, scale: 1.0, adds: false, out });
        });
    }

    /// `d_x += d_out * weights` for some of a weight's rows · d_out: act `[tokens, rows.len()]`
    pub fn through_rows(
        &self,
        d_out: View<'_>,
        matrix: &DeviceMatrix,
        rows: Range<usize>,
        mut d_x: ViewMut<'_>,
    ) {
        let first = rows.start;
        self.ops.products.for_rows(matrix, rows, |part, weights| {
            let left = Operand::rows(d_out.columns(part.start - first, part.len()));
            let (right, out) = (Operand::columns(weights), d_x.reborrow());
            self.multiply(&MatrixProduct { left, right, scale: 1.0, adds: true, out });
        });
    }

    /// Some outputs of a branch. x: act
    pub fn add_branch_rows(
        &self,
        x: View<'_>,
        branch: LoraBranch<'_>,
        rows: &Range<usize>,
        inner: ViewMut<'_>,
        out: ViewMut<'_>,
    ) {
        let [a, b] = [branch.a, branch.b].map(|linear| linear.cuda().only().dense());
        let mut inner = inner;
        let (left, right, out_inner) = (Operand::rows(x), Operand::rows(a), inner.reborrow());
        self.multiply(&MatrixProduct { left, right, scale: 1.0, adds: false, out: out_inner });
        let left = Operand::rows(inner.as_view());
        let (right, scale) = (Operand::rows(b.rows(rows.clone())), branch.scale);
        self.multiply(&MatrixProduct { left, right, scale, adds: true, out });
    }

    /// Those of some outputs; x and d_out: act, `d_b` and `d_out` of these outputs alone.
    pub fn branch_gradients(
        &self,
        branch: LoraBranch<'_>,
        rows: &Range<usize>,
        args: LoraGradients<'_>,
    ) {
        let LoraGradients { x, inner, d_out, mut d_inner, d_x, d_a, d_b } = args;
        let [a, b] = [branch.a, branch.b].map(|linear| linear.cuda().only().dense());
        let (b, scale) = (b.rows(rows.clone()), branch.scale);
        let (left, right) = (Operand::columns(d_out), Operand::columns(inner));
        self.multiply(&MatrixProduct { left, right, scale, adds: true, out: d_b });
        let (left, right, out) = (Operand::rows(d_out), Operand::columns(b), d_inner.reborrow());
        self.multiply(&MatrixProduct { left, right, scale, adds: false, out });
        let d_inner = d_inner.into_view();
        let (left, right) = (Operand::columns(d_inner), Operand::columns(x));
        self.multiply(&MatrixProduct { left, right, scale: 1.0, adds: true, out: d_a });
        let (left, right) = (Operand::rows(d_inner), Operand::columns(a));
        self.multiply(&MatrixProduct { left, right, scale: 1.0, adds: true, out: d_x });
    }

    pub fn multiply(&self, product: &MatrixProduct<'_>) {
        let library = self.ops.products.library();
        if !library.is_some_and(|library| library.multiply(product)) {
            self.kernels.product.multiply(product);
        }
    }

    /// Rows as products take them.
    pub fn rounded<'x>(&self, x: View<'x>) -> Result<ActRows<'x>, Error> {
        let dtype = self.ops.activation();
        if x.dtype() == dtype {
            return Ok(ActRows::Given(x));
        }
        let [rows, columns] = x.dims();
        let stride = columns.next_multiple_of(WHOLE_ROWS);
        let bytes = rows * stride * dtype.bytes();
        let mut memory = self.kernels.memory.take(bytes, "rows of products")?;
        let whole = memory.buffer_mut().view_mut(dtype, [rows, stride]);
        let [to, _] = whole.split_columns([columns, stride - columns]);
        self.kernels.rows.cast.cast(x, to);
        Ok(ActRows::Rounded { memory, dtype, rows, columns, stride })
    }

    /// The numbers of a trained weight as they are on the host.
    fn numbers_on_device(&self, linear: &Linear) -> Result<PooledBuffer, Error> {
        let numbers = linear.numbers().expect("a trained weight is f32");
        let mut memory = self.kernels.memory.take(size_of_val(numbers), "a branch's matrix")?;
        let to = memory.buffer_mut().view_mut(DType::F32, [numbers.len()]);
        let bytes = View::of(numbers, [1, numbers.len()]).row_bytes(0);
        self.ops.device().write(&to, bytes)?;
        Ok(memory)
    }
}

//! The weights of a layer as a file has them, put into the order that the layer computes in.

use std::sync::Arc;

use terrace_device::Buffer;
use terrace_kernels::{BiasedWeight, Matrix, WeightFormat, unpack_row};

use super::hstu_layer_spec::HstuLayerSpec;
use crate::error::Error;

/// f32 weights of one layer; matrices are `[outputs, inputs]`.
pub struct HstuLayerTensors {
    pub input_norm: Option<NormTensors>,
    /// Rows of U, V, Q, K.
    pub uvqk: BiasedWeight,
    pub output_norm: Option<NormTensors>,
    pub output: BiasedWeight,
    pub bias: Option<BiasTensors>,
}

pub struct NormTensors {
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
}

/// What scores get added by position and by time.
pub struct BiasTensors {
    /// `[2 n - 1]`
    pub by_position: Vec<f32>,
    /// One for each bucket.
    pub by_time: Vec<f32>,
}

/// How the outputs of the projection are ordered in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UvqkLayout {
    /// All of U, then V, Q and K, each head by head: fused layers and checkpoints.
    Blocked,
    /// Head by head, U, V, Q, K of each: native and debug layers of training.
    PerHead,
}

impl UvqkLayout {
    /// For each output in blocked order, which output of the file it is.
    pub fn order(self, spec: &HstuLayerSpec) -> Vec<usize> {
        if self == UvqkLayout::Blocked {
            return (0..spec.uvqk_width()).collect();
        }
        let dims = [spec.value_dim, spec.value_dim, spec.key_dim, spec.key_dim];
        let head_width: usize = dims.iter().sum();
        let mut order = Vec::with_capacity(spec.uvqk_width());
        let mut before = 0;
        for dim in dims {
            for head in 0..spec.heads {
                let start = head * head_width + before;
                order.extend(start..start + dim);
            }
            before += dim;
        }
        order
    }
}

/// An f32 matrix in memory of its own.
pub fn owned_matrix(numbers: &[f32], [rows, columns]: [usize; 2]) -> Result<Matrix, Error> {
    assert_eq!(numbers.len(), rows * columns, "numbers of a {rows}x{columns} matrix");
    let mut buffer = Buffer::zeroed(size_of_val(numbers), "weights")?;
    let bytes = buffer.bytes_mut().as_chunks_mut().0.iter_mut();
    bytes.zip(numbers).for_each(|(bytes, number)| *bytes = number.to_le_bytes());
    Ok(Matrix::new(WeightFormat::F32, rows, columns, Arc::new(buffer)))
}

/// All numbers of a matrix, row by row.
pub fn widened(matrix: &Matrix) -> Vec<f32> {
    let mut numbers = vec![0.0; matrix.rows() * matrix.columns()];
    for (row, out) in numbers.chunks_exact_mut(matrix.columns().max(1)).enumerate() {
        unpack_row(matrix.format(), matrix.row(row), out);
    }
    numbers
}

/// Rows of a matrix in another order.
pub fn reordered(matrix: &Matrix, order: &[usize]) -> Result<Matrix, Error> {
    let row_bytes = matrix.row(0).len();
    let mut buffer = Buffer::zeroed(order.len() * row_bytes, "weights")?;
    for (bytes, row) in buffer.bytes_mut().chunks_exact_mut(row_bytes).zip(order) {
        bytes.copy_from_slice(matrix.row(*row));
    }
    let buffer = Arc::new(buffer);
    Ok(Matrix::new(matrix.format(), order.len(), matrix.columns(), buffer))
}

/// The transposed matrix: some files have `[inputs, outputs]`.
pub fn transposed(matrix: &Matrix) -> Result<Matrix, Error> {
    let (rows, columns) = (matrix.rows(), matrix.columns());
    let numbers = widened(matrix);
    let across: Vec<f32> = (0..columns)
        .flat_map(|column| (0..rows).map(move |row| (row, column)))
        .map(|(row, column)| numbers[row * columns + column])
        .collect();
    owned_matrix(&across, [columns, rows])
}

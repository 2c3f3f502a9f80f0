//! How a tensor is stored, whatever the file.

use terrace_kernels::WeightFormat;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    pub format: WeightFormat,
    /// Outermost dimension first: `[rows, columns]` for a matrix.
    pub shape: Vec<usize>,
}

//! One of the matrices that a call multiplies with.

use super::packed_matrix::PackedMatrix;

/// A weight matrix with an optional bias.
pub(crate) struct PackedWeight {
    pub(crate) weight: PackedMatrix,
    /// One for each row of the weight.
    pub(crate) bias: Option<Vec<f32>>,
}

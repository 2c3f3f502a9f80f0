//! One of the matrices that a call multiplies with.

use super::strip_matrix::StripMatrix;

/// A weight matrix with an optional bias.
pub(crate) struct StripPart {
    pub(crate) weight: StripMatrix,
    /// One for each row of the weight.
    pub(crate) bias: Option<Vec<f32>>,
}

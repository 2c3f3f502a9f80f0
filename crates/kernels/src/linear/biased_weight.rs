//! A product's weights as a model has them.

use super::matrix::Matrix;

/// A weight matrix with an optional bias, as a model's file gives it.
#[derive(Clone)]
pub struct BiasedWeight {
    pub weight: Matrix,
    /// One for each row of the weight.
    pub bias: Option<Vec<f32>>,
}

//! One of the products that a call computes of the same input.

use terrace_device::{View, ViewMut};

use crate::linear::matrix::Matrix;

/// One product of a shared input.
pub struct Projection<'a> {
    pub weight: &'a Matrix,
    /// f32 `[rows of weight]`
    pub bias: Option<View<'a>>,
    /// f32 `[tokens, rows of weight]`
    pub out: ViewMut<'a>,
}

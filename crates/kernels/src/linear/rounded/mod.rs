//! Products of rows rounded to bf16 with weights rounded to bf16, in both directions: a layer's
//! outputs, and the gradient of its input. Sums are f32.
//!
//! Weights lie as in their file and are there once. A task takes some outputs, makes panels of
//! their weights in the worker's cache ([`panels`]), and all rows pass by them, on the matrix
//! units where there are any ([`multiply_pair`](super::packed::multiply_pair)). A panel's lanes are
//! outputs: rows of the weight one way, columns of it the other, so that nothing but the making of
//! panels knows the direction.
//!
//! Roofline: `2 tokens` flops per weight on the matrix units; making panels takes about one cycle
//! for four weights, so from some hundred tokens on it does not count.

mod panels;
mod product;

pub(crate) use product::{input_gradient, project};

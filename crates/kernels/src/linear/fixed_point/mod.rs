//! Products of many rows in fixed point, for processors without matrix units: an instruction has
//! twice the products that one of f32 has.
//!
//! Weights and activations are integers of 13 bits with a step for each row and 128 columns, a
//! power of two. 128 products are added exactly in 32 bits; f32 adds these sums. What is lost is
//! less than half of what bf16 loses where the numbers of a block are about as large as each
//! other. So it is for activations of layers, and not for features as they come from outside:
//! matrices of few columns are no such products ([`COLUMNS_LEAST`]).
//!
//! Roofline: two flops for each weight and row, 64 per instruction; bound by multiplication from
//! about ten rows on.

mod fixed_matrix;
mod fixed_products;
mod fixed_rows;
mod fixed_step;
mod project;

pub(crate) use fixed_matrix::FixedMatrix;
pub(crate) use project::{FixedProduct, project};

/// Columns that have a step.
pub(crate) const STEP_COLUMNS: usize = 128;
/// Matrices of fewer columns are multiplied in f32 ([`few_columns`](super::few_columns)): they cost
/// little, and their inputs may be numbers of any size beside each other.
pub(crate) const COLUMNS_LEAST: usize = 64;

#[cfg(test)]
mod tests;

//! Gradients of `out = x * weight^T + bias`.
//!
//! x, d_x: f32 `[tokens, columns]` · d_out: f32 `[tokens, rows]` · weight: `[rows, columns]` in any
//! format · d_weight: f32 `[rows, columns]` · d_bias: f32 `[rows]`
//!
//! All of them add to what is there. The input's gradient meets the weight as it lies in its file,
//! a few rows at a time unpacked into the worker's scratch: there is no second copy of it.
//!
//! Roofline: `2 tokens` flops per weight each; a tile of weights is unpacked once for
//! 32 tokens, which hides it behind the multiplications.

mod bias;
mod input;
pub(crate) mod reference;
mod weight;

pub(crate) use bias::bias_gradient;
pub(crate) use input::input_gradient;
pub(crate) use weight::weight_gradient;

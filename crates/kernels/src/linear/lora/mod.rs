//! A product with a trained branch of low rank beside its weight, and the branch's gradients:
//! `out = x * weight^T + bias + scale * (x * a^T) * b^T`.
//!
//! x: f32 `[tokens, columns]` · a: `[rank, columns]` · b: `[rows, rank]` · inner, `x * a^T`, which
//! the gradients read again: f32 `[tokens, rank]` · out: f32 `[tokens, rows]`
//!
//! The branch is added to the product where it lies: no second output of its size is made.
//!
//! Roofline: the product's, and `2 rank (rows + columns)` flops a token.

mod add_branch;
mod backward;
mod branch;
mod dora;
pub(crate) mod reference;

pub(crate) use add_branch::add_branch;
pub use backward::LoraGradients;
pub(crate) use backward::lora_gradients;
pub use branch::LoraBranch;
pub(crate) use dora::branch_row_norms;

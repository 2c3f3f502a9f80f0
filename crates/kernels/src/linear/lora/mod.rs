//! A product with a trained branch of low rank beside its weight, and the branch's gradients:
//! `out = x * weight^T + bias + scale * (x * a^T) * b^T`.
//!
//! x: f32 `[tokens, columns]` · a: `[rank, columns]` · b: `[rows, rank]` · inner, `x * a^T`, which
//! the gradients read again: f32 `[tokens, rank]` · out: f32 `[tokens, rows]`
//!
//! The branch is added to the product where it lies: no second output of its size is made. Those
//! that are served may be normed before, or scale the sum.
//!
//! Roofline: the product's, and `2 rank (rows + columns)` flops a token.

mod add_branch;
mod apply_branch;
mod backward;
mod branch;
mod cuda_branch;
pub(crate) mod cuda_dora;
mod dora;
mod inner_gradient;
pub(crate) mod reference;
mod transposed;

pub(crate) use add_branch::add_branch;
pub(crate) use apply_branch::apply_branch;
pub use apply_branch::{BranchArgs, BranchForm};
pub use backward::LoraGradients;
pub(crate) use backward::lora_gradients;
pub use branch::LoraBranch;
pub(crate) use cuda_branch::BranchKernels;
pub(crate) use dora::branch_row_norms;
pub use dora::row_norms_on_host;

//! Products of tokens with weight matrices: `out = x * weight^T + bias`.
//!
//! x: f32 `[tokens, columns]` · each product: weight `[rows, columns]`, bias f32 `[rows]`, out f32
//! `[tokens, rows]`
//!
//! A task is a block of weight rows, which meets every token: unpacked into the worker's scratch
//! once ([`tiles`](crate::tiles)), or for a few tokens straight from its packed form ([`packed`]).
//! Weights are never kept in a second form. All products of a call (queries, keys and values, say)
//! are shared out at once. An output is one sum whose order depends on the number of columns alone.
//!
//! Roofline: `2 tokens` flops per weight. One token is bound by reading and unpacking the weights
//! (0.6 bytes each for Q4_1); from about 30 tokens on, by multiplication.

pub(crate) mod bias;
mod block;
pub(crate) mod cuda;
pub(crate) mod dense_product;
pub(crate) mod device_matrix;
mod few_outputs;
mod gemm;
pub(crate) mod host_matrix;
pub(crate) mod matrix_kind;
pub(crate) mod matrix_product;
mod packed;
mod packed_matrix;
mod panels;
mod plain;
pub(crate) mod product;
mod project;
mod project_stacked;
mod projection;
pub(crate) mod reference;
mod tiles;
mod unpack_rows;

pub(crate) use project::project;
pub(crate) use project_stacked::project_stacked;
pub use projection::Projection;

//! Weight matrices and their products: as the file has them ([`matmul`]), packed for the processor
//! when a model is loaded ([`packed`]), in fixed point for many rows ([`fixed_point`]), or column
//! by column ([`few_columns`]). Products of training are in [`in_training`], rounded to bf16 in
//! both directions ([`rounded`]) or in f32, gradients in [`backward`], branches of low rank in
//! [`lora`].

pub(crate) mod accumulate;
pub(crate) mod backward;
pub(crate) mod biased_weight;
pub(crate) mod few_columns;
pub(crate) mod fixed_point;
pub(crate) mod gated_args;
pub(crate) mod in_training;
#[expect(clippy::module_inception, reason = "the folder and its main type have the same name")]
pub(crate) mod linear;
pub(crate) mod lora;
pub(crate) mod matmul;
pub(crate) mod matrix;
pub(crate) mod packed;
pub(crate) mod place_on_cpu;
pub(crate) mod rounded;
pub(crate) mod row_kinds;
pub(crate) mod unpack;
pub(crate) mod vector;
pub(crate) mod weight_format;

//! Products with weights in panels: the CPU's default path.
//!
//! A panel is sixteen rows of a weight matrix, interleaved so that a lane of a vector is a row. It
//! is packed once when a model is loaded ([`PackedMatrix`]); nothing else keeps the weights.
//!
//! A generated token's activations become 16-bit integers, which meet quantised weights as they
//! are packed ([`int16_products`]); this is bound by reading the weights. Where the processor
//! multiplies int8, an int16 goes as two of them, with the same result ([`int8_vectors`]), and
//! several tokens through the matrix units ([`int8_products`]). A prompt's
//! activations are rounded to bf16 and meet weights unpacked to bf16 in cache, on the matrix units
//! where there are any ([`tile_products`]), else with vectors ([`bf16_products`]). Weights that are
//! not quantised are kept as bf16 and meet bf16 activations always.
//!
//! Roofline: a generated token reads each weight once, 0.6 bytes for Q4_1. A prompt is bound by
//! the matrix units from about 100 rows on: below, by unpacking.

mod bf16_products;
mod finish;
mod finish_rows;
mod format_kernel;
mod inputs;
mod int16_products;
mod int16_rows;
#[cfg(target_arch = "x86_64")]
mod int8_products;
mod int8_rows;
mod int8_vectors;
mod packed_matrix;
mod packed_weight;
mod pair_product;
mod pair_sums;
mod panel_format;
mod panel_pair;
mod project;
mod row_block;
#[cfg(target_arch = "x86_64")]
mod tile_products;
mod unpack_panel;

pub(crate) use finish::Finish;
#[cfg(target_arch = "x86_64")]
pub(crate) use finish_rows::AskForOutputs;
pub(crate) use inputs::{Inputs, PassRows, Wanted, convert, prompt_pass_rows};
pub(crate) use packed_matrix::PackedMatrix;
pub(crate) use packed_weight::PackedWeight;
pub(crate) use pair_product::{CACHED_ROWS, PairRows, Units, multiply_pair, multiply_rows, units};
pub(crate) use pair_sums::{PairSums, SUM_ROWS};
pub(crate) use project::{PackedProduct, project};

#[cfg(test)]
mod tests;

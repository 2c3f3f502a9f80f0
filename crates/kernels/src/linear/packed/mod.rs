//! Products with weights in strips: the CPU's default path.
//!
//! A strip is sixteen rows of a weight matrix, interleaved so that a lane of a vector is a row. It
//! is packed once when a model is loaded ([`StripMatrix`]); nothing else keeps the weights.
//!
//! A generated token's activations become 16-bit integers, which meet quantised weights as they
//! are packed ([`word_products`]); this is bound by reading the weights. Where the processor
//! multiplies bytes, a word goes as two of them, with the same result ([`byte_vectors`]), and
//! several tokens through the matrix units ([`byte_products`]). A prompt's
//! activations are rounded to bf16 and meet weights unpacked to bf16 in cache, on the matrix units
//! where there are any ([`tile_products`]), else with vectors ([`bf16_products`]). Weights that are
//! not quantised are kept as bf16 and meet bf16 activations always.
//!
//! Roofline: a generated token reads each weight once, 0.6 bytes for Q4_1. A prompt is bound by
//! the matrix units from about 100 rows on: below, by unpacking.

mod bf16_products;
mod bf16_rows;
#[cfg(target_arch = "x86_64")]
mod byte_products;
mod byte_rows;
mod byte_vectors;
mod finish;
mod finish_rows;
mod inputs;
mod panel;
mod panel_sums;
mod project;
mod row_block;
mod strip_format;
mod strip_matrix;
mod strip_part;
#[cfg(target_arch = "x86_64")]
mod tile_products;
mod unpack_strip;
mod word_products;
mod word_rows;

#[cfg(target_arch = "x86_64")]
pub(crate) use bf16_rows::{TILE_NUMBERS, TILE_ROWS, narrow, tile_row, tiles_numbers};
pub(crate) use finish::Finish;
pub(crate) use project::{StripProduct, project};
#[cfg(target_arch = "x86_64")]
pub(crate) use strip_format::{BLOCK_COLUMNS, BYTE_ORDER, STRIP_ROWS};
pub(crate) use strip_matrix::StripMatrix;
pub(crate) use strip_part::StripPart;

#[cfg(test)]
mod tests;

//! Rows of keys and values in fewer bits.
//!
//! A block is the numbers of one slot and one head: it never leaves its slot, so a slot can be
//! written, moved or forgotten without touching another. A row's bytes are its codes, then its
//! scale, then its zero point where it has one.
//!
//! These are the plain versions: the specification that faster ones are held to.

mod asymmetric;
pub(crate) mod byte_format;
mod code_book;
mod code_table;
pub(crate) mod cuda;
mod nibbles;
mod quantiser;
pub(crate) mod round_rows;

pub use quantiser::Quantiser;

//! Bytes of tables: lines, and numbers in them.

mod line_reader;
mod number_text;

pub use line_reader::LineReader;
pub use number_text::{push_number, whole_number, whole_prefix};

//! Rows copied by index: each row of the output names the row it is a copy of.
//!
//! from: f32 `[rows, dim]` · index: i32 `[count]` · to: f32 `[count, dim]`
//!
//! Roofline: a row read and a row written for each.

pub(crate) mod cuda;
pub(crate) mod reference;

pub use reference::expand_rows;

//! Rows copied by index: each row of the output names the row it is a copy of, or each row of the
//! input the row it goes to.
//!
//! Roofline: a row read and a row written for each.

pub(crate) mod cuda;
pub(crate) mod reference;

pub use reference::expand_rows;

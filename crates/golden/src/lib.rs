//! Golden data: what other implementations computed, as files of tensors and a manifest of them.
//!
//! Tests of every crate and `terrace selftest` read it here. What the kinds of entries hold is said
//! in `testdata/kv/README.md`; sizes come from the files, so that data of other shapes can be put
//! in.
#![forbid(unsafe_code)]

mod error;
mod golden_folder;
mod golden_tensors;
mod largest_difference;
mod set_findings;

pub use error::GoldenFileError;
pub use golden_folder::{GoldenCase, GoldenFolder};
pub use golden_tensors::GoldenTensors;
pub use largest_difference::LargestDifference;
pub use set_findings::SetFindings;

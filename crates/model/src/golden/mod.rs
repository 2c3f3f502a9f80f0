//! Models held to what their original implementations computed.
//!
//! A decoder is driven by hand here, step by step through pages of its own, on whatever device its
//! ops compute; no engine is around it. The tests of this crate and `terrace selftest` share it.

mod case_check;
pub mod ctr;
mod golden_model;
pub mod hstu;
mod paged_run;
mod placed;
mod reference_run;
mod step_arrays;

pub use case_check::{CaseFindings, Feeding, check_case};
pub use golden_model::{GoldenModel, GoldenPrompt};
pub use paged_run::{LogitsRow, PagedRun};
pub use reference_run::{FedAs, ForcedFindings, ReferenceItem, ReferenceRun};

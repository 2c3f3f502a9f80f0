//! What is computed: about a dozen fused ops, one folder each, over views.
//!
//! Every op has a plain `reference.rs`, which is its specification and its oracle; faster versions
//! are held to it by [`conformance`]. [`Ops`] is the table of versions chosen once for a device.
//! No op allocates, and no op's result for a row depends on what else is in the batch.

mod matrix;
mod ops;
mod paged_kv;
mod weight_format;

pub use matrix::Matrix;
pub use ops::{Activation, AttentionArgs, CpuOptions, Ops, Projection, RopeAngles, RopeStyle};
pub use paged_kv::{PageLayout, PagedKv};
pub use weight_format::WeightFormat;

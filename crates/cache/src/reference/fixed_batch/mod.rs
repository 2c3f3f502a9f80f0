//! A batch of fixed rows in one layer, and its parts.

mod batch_shape;
mod batch_step;
mod blocks;
mod fixed_batch_cache;
mod ranges;
mod scored;

pub use batch_shape::BatchShape;
pub use batch_step::{BatchCall, BatchStep};
pub use blocks::FixedBlocks;
pub use fixed_batch_cache::FixedBatchCache;

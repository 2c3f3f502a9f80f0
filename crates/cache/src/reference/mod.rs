//! Caches in plain arrays: slow, and what faster ones are held to.
//!
//! [`SequenceCache`] is one sequence in one layer as an engine serves it. [`FixedBatchCache`] is a
//! batch of rows in one layer as awslabs/keys_values computes it, with what that gets wrong.

mod attention;
mod fixed_batch;
mod sequence_cache;

pub use attention::{Attended, AttentionShape, attend};
pub use fixed_batch::{BatchCall, BatchShape, BatchStep, FixedBatchCache, FixedBlocks};
pub use sequence_cache::{ChunkRows, SequenceCache};

//! Rows of keys straight from a hot cache on a GPU, summed or averaged by slot into what a network
//! reads.
//!
//! Elsewhere a look-up gives the rows, and [`Ops::pool_rows`](crate::Ops::pool_rows) pools them: on
//! a GPU, too, where rows are missing that are waited for, or have more than [`POOLED_DIM_MOST`]
//! numbers.

pub(crate) mod cuda;

pub use cuda::PoolCachedArgs;

/// Numbers of a row that can be pooled without a copy.
pub const POOLED_DIM_MOST: usize = 256;

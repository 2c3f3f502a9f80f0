//! Rows of keys straight from a hot cache, summed or averaged by slot into what a network reads: on
//! a GPU ([`GatherOps::pool_cached`](crate::GatherOps::pool_cached)), or from one in host memory
//! ([`Ops::pool_host_cached`](crate::Ops::pool_host_cached)).
//!
//! Elsewhere a look-up gives the rows, and [`Ops::pool_rows`](crate::Ops::pool_rows) pools them: on
//! a GPU, too, where rows are missing that are waited for, or have more than [`POOLED_DIM_MOST`]
//! numbers.

pub(crate) mod cpu;
pub(crate) mod cuda;
pub(crate) mod reference;

pub use cuda::PoolCachedArgs;

use crate::ctr::pool_rows::Combiner;

/// Numbers of a row that can be pooled without a copy on a GPU.
pub const POOLED_DIM_MOST: usize = 256;

/// Keys of one table, for a cache in host memory.
#[derive(Clone, Copy)]
pub struct PoolHostArgs<'a> {
    pub keys: &'a [i64],
    /// `[samples * slots + 1]`: where each slot's keys begin, from 0 on.
    pub offsets: &'a [i32],
    pub combiner: Combiner,
    /// For keys that are not there.
    pub default_value: f32,
}

#[cfg(test)]
mod tests;

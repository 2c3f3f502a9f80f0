//! What attention over pages and attention over chosen slots are made of on the CPU: some queries
//! of one kv head, and a block of keys and values.
//!
//! Keys come in blocks of [`BLOCK_KEYS`], always starting at a multiple of it. For each block a
//! query's scores become weights relative to the largest score so far, and the weighted values are
//! added up. Whatever a query sums, it sums in an order given by the numbers of its keys alone.
//!
//! Rows are read from where they lie: a few queries finish with a number while it is in a register.
//! Many queries meet rows that were widened to f32 once for all of them. Both give the same bits.
//! Queries of prompts go through the matrix units where there are any ([`prompt_work`]).

mod block_rows;
#[cfg(target_arch = "x86_64")]
mod prompt_silu;
#[cfg(target_arch = "x86_64")]
mod prompt_softmax;
#[cfg(target_arch = "x86_64")]
mod prompt_work;
mod queries;
mod score;
mod softmax;
#[cfg(target_arch = "x86_64")]
mod tile_products;
mod weigh;

pub(crate) use block_rows::{BlockRows, RowType};
#[cfg(target_arch = "x86_64")]
pub(crate) use prompt_softmax::Sight;
#[cfg(target_arch = "x86_64")]
pub(crate) use prompt_work::{
    PROMPT_TILE_QUERIES, PromptWork, as_bf16, pack_queries, prompt_floats, query_floats,
};
pub(crate) use queries::{OutRows, QueryRows};
pub(crate) use score::{ScoreRows, score};
pub(crate) use softmax::{NOTHING_SEEN, carry_on, shrink};
pub(crate) use weigh::{Weighing, add_weighted};

/// 64 keys and values of 64 numbers fill two thirds of a first-level cache of 48 KiB.
pub(crate) const BLOCK_KEYS: usize = 64;

/// Queries that read rows where they lie: with more of them, rows are converted again and again.
pub(crate) const DIRECT_QUERIES: usize = 12;

//! Attention of live rows over the past slots of their sequence and over each other.
//!
//! q: f32 `[tokens, heads, key_dim]` · live_k, live_v: page dtype `[tokens, kv_heads, dim]`, fp8
//! rows followed by their scales · out: f32 `[tokens, heads, value_dim]`
//!
//! Query at position `p` sees keys `j <= p`, and with a window only those with `p - j < window`.
//! Head `h` reads kv head `h / (heads / kv_heads)`.
//!
//! A task is a tile of consecutive tokens of one sequence with all query heads of one kv head, so
//! that a key is fetched and widened once for all of them. Keys are taken in blocks that start at
//! fixed positions ([`simd`]), which makes a query's result independent of where pages end, where
//! the live rows begin and what else is in the tile. Long sequences are cut further where there are
//! few of them ([`split_kv`]). Queries of prompts go through the matrix units where there are any
//! ([`prompt_tile`]).
//!
//! Roofline: `2 (key_dim + value_dim)` flops per query head and visible key. Decoding reads each
//! key and value once for the group, so it is bound by memory up to groups of about ten heads.

mod attend;
mod attention_args;
pub(crate) mod cuda;
mod cuts;
mod layer;
mod paged_attention;
mod partial_sums;
#[cfg(target_arch = "x86_64")]
mod prompt_tile;
pub(crate) mod reference;
mod simd;
mod split_kv;
mod splits;
mod tile;

pub(crate) use attend::{attend, live_widths};
pub use attention_args::AttentionArgs;
pub(crate) use paged_attention::paged_attention;

//! Which cache a request gets: what users say, and what is made of it for one sequence.

mod cache_maker;
mod requested_kv_cache;

pub use cache_maker::{CacheMaker, CacheMakerConfig};
pub use requested_kv_cache::{KwArg, Lengths, RequestedKvCache};

//! Which cache a request gets: what users say, and what is made of it for one sequence.

mod cache_maker;
mod kv_cache_wishes;

pub use cache_maker::{CacheMaker, CacheMakerConfig};
pub use kv_cache_wishes::{KvCacheWishes, KwArg, Lengths};

//! The tier that several servers share: a Redis Cluster, or one Redis.

mod redis_fault;
mod redis_link;
mod redis_scan;
mod redis_tier;

pub use redis_tier::{RedisTier, RedisTierConfig};

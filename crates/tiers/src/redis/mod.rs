//! How a Redis Cluster or one Redis is reached, and the tier that several servers share there.

mod cluster_slots;
mod redis_fault;
mod redis_link;
mod redis_nodes;
mod redis_scan;
mod redis_session;
mod redis_tier;
mod redis_tls;
mod tls_names;

pub use redis_fault::RedisAdvice;
pub use redis_link::RedisLink;
pub use redis_nodes::RedisNodes;
pub use redis_session::RedisSession;
pub use redis_tier::{RedisTier, RedisTierConfig};
pub use redis_tls::{RedisTls, RedisTlsFiles};

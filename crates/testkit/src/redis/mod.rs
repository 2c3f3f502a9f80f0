//! Real Redis servers for tests, alone and as clusters.
//!
//! What a test asks of them goes over a client of its own, not over the one that is tested.

mod redis_cluster;
mod redis_reply;
mod redis_server;

pub use redis_cluster::RedisCluster;
pub use redis_reply::RedisReply;
pub use redis_server::{RedisServer, free_port};

//! Rows in a Redis Cluster, or in one Redis, that several servers share.

mod entry_bytes;
mod eviction;
mod hash_page;
mod key_groups;
mod partition_trust;
mod redis_database;
mod redis_store;
mod redis_table;
mod row_write;
mod table_call;
mod use_marks;
mod use_queue;

pub use entry_bytes::redis_row_bytes;
pub use partition_trust::{PartitionRun, Vouched};
pub use redis_database::RedisDatabase;
pub use redis_store::RedisStore;

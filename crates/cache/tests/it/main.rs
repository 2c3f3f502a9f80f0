//! Pool, table, index and space, held to simple models through random histories.

mod block_table;
mod chunk_plan;
mod fixed_batch;
mod golden_attention;
mod golden_models;
mod golden_ops;
mod golden_policies;
mod kv_buffer;
mod kv_cache_spec;
mod kv_space;
mod page_key;
mod page_pool;
mod policy_tables;
mod sequence_cache;
mod slot_ops;
mod slot_rule;
mod space_model;
mod store_space;
mod user_cache;
mod windows;

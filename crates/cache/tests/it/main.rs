//! Pool, table, index and space, held to simple models through random histories.

mod block_table;
mod kv_buffer;
mod kv_space;
mod page_key;
mod page_pool;
mod space_model;

//! Rows in the memory of this process.

mod key_slots;
mod keys_by_shard;
mod lookup_window;
mod ram_store;
mod row_blocks;
mod row_shard;
mod row_uses;

pub use ram_store::{RamStore, RamStoreConfig};

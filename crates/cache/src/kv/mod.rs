//! Key/value memory in pages, from the id of a page up to the space that many sequences share.
//!
//! Read in this order: ids and keys, the pool, one sequence's table, the index of shared content,
//! the space that joins them, and last the bytes.

mod block_table;
mod group_bytes;
mod idle_list;
mod kv_buffer;
mod kv_group;
mod kv_space;
mod page_id;
mod page_key;
mod page_move;
mod page_pool;
mod prefix_index;
mod store_space;

pub use block_table::{BlockTable, OutOfPages, PageCopy};
pub use kv_buffer::KvBuffer;
pub use kv_group::KvGroup;
pub use kv_space::{KindId, KvSpace, PrefixMatch};
pub use page_id::{PageId, SlotId};
pub use page_key::{PageKey, PageKeys, PrefixSeed};
pub use page_move::{Direction, MoveId, PageMove};
pub use page_pool::PagePool;
pub use prefix_index::PrefixIndex;
pub use store_space::{StorePageId, StoreSpace};

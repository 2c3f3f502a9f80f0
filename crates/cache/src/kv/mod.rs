//! Key/value memory in pages, from the id of a page up to the space that many sequences share.
//!
//! Read in this order: ids and keys, the pool, one sequence's table, the index of shared content,
//! the space that joins them, and last the bytes.

mod block_table;
mod group_bytes;
mod kv_buffer;
mod kv_group;
mod kv_space;
mod lower_tiers;
mod page_id;
mod page_key;
mod page_move;
mod page_pool;
mod prefix_index;
mod prefix_match;
mod store_space;
mod tier_work;

pub use block_table::{BlockTable, OutOfPages, PageCopy};
pub use kv_buffer::KvBuffer;
pub use kv_group::KvGroup;
pub use kv_space::{KindId, KvSpace};
pub use lower_tiers::{LowerTiers, TierId};
pub use page_id::{PageId, PageNumber, SlotId, StorePageId};
pub use page_key::{PageKey, PageKeys, PrefixSeed};
pub use page_move::{Direction, MoveId, PageMove};
pub use page_pool::PagePool;
pub use prefix_index::PrefixIndex;
pub use prefix_match::{FoundPage, PrefixMatch};
pub use store_space::StoreSpace;
pub use tier_work::{TierDone, TierTask, TierWork, WorkId, WrittenPage};

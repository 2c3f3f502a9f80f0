//! What is kept of users: the keys and values of their histories, by user and position.
//!
//! A user's history has pages of its own, from its first token on, and is there to the token: the
//! last page need not be full. Pages are on the device, on the host, or below; full ones are known
//! to lower tiers by content ([`HistoryKeys`]), which is compared with every request, so that an
//! edited history is noticed. When the device is full, the longest unused user leaves first.

mod cached_user;
mod history_keys;
mod kv_metadata;
mod lower_page;
mod moves_under_way;
mod span_check;
mod user_cache;
mod user_key;
mod user_lists;

pub use cached_user::UserSlot;
pub use history_keys::{HistoryKeys, HistoryRoot, HistorySeed, PageContent, timed_event};
pub use kv_metadata::{KvMetadata, MetadataUser};
pub use lower_page::LowerPage;
pub use span_check::{SpanError, check_start};
pub use user_cache::{
    CachedSpan, HistoryContent, NoRoom, Prepared, RemovedUser, UserCache, UserCacheCounts,
    UserCacheLimits,
};
pub use user_key::UserKey;

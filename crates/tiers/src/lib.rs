//! Bytes that have left the device: the store of pages in host memory, and the tiers below it.
//!
//! Which page goes where is decided elsewhere, as [`PageMove`](terrace_cache::PageMove)s; here they
//! are carried out. Below host memory a page is a [`record`] in a [`PageTier`].

#![forbid(unsafe_code)]

mod call_guard;
mod circuit_breaker;
mod disk;
mod guarded_tier;
mod handles;
mod page_store;
mod page_tier;
pub mod record;
mod redis;
mod tier_counters;
mod tier_error;
mod tier_executor;
mod tier_threads;
mod work_threads;

pub use call_guard::{CallCounters, CallGuard, Side};
pub use circuit_breaker::{BreakerChange, BreakerConfig, CircuitBreaker, Permit};
pub use disk::{DiskTier, DiskTierConfig};
pub use guarded_tier::GuardedTier;
pub use handles::{
    DiskHandles, HandleDone, HandleDraft, HandleError, HandleExecutor, HandleFault, HandleId,
    HandleInfo, HandleManifest, HandleReader, HandleStore, HandleTask, HandleThreads, HandleWork,
    HandleWriter, ManifestFault, StoredReader, TableManifest,
};
pub use page_store::{PageStore, PageStoreComing, Wait};
pub use page_tier::{FoundRecord, PageTier, Stored, TierRecord, TierRetention, TierUsage};
pub use redis::{
    RedisAdvice, RedisLink, RedisNodes, RedisSession, RedisTier, RedisTierConfig, RedisTls,
    RedisTlsFiles,
};
pub use tier_counters::{RecordCounters, TierCounters};
pub use tier_error::TierError;
pub use tier_executor::{TierExecutor, Wake};
pub use tier_threads::TierThreads;

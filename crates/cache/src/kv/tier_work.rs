//! Work of the tiers below host memory, as data: between pages of the store and records by content.

use crate::kv::{PageKey, StorePageId, TierId};

/// Names work inside one engine; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub u64);

/// To be done beside the steps. Until it is done nobody else writes the pages that it reads, or
/// uses those that it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierWork {
    pub id: WorkId,
    pub tier: TierId,
    pub task: TierTask,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TierTask {
    /// Which of these it has.
    LookUp(Vec<PageKey>),
    /// Records into pages of the store.
    Read(Vec<(PageKey, StorePageId)>),
    /// Pages of the store into records.
    Write(Vec<WrittenPage>),
    /// Every record whose key begins so goes, also those of writes that were started before.
    RemovePrefix(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenPage {
    pub key: PageKey,
    pub page: StorePageId,
    /// As [`Retention`](crate::placement::Retention) has it.
    pub priority: u8,
    /// From now on.
    pub ttl_ms: Option<u64>,
}

/// What came of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierDone {
    pub id: WorkId,
    /// For each key whether it was found, whether its bytes are in the page, or whether the tier
    /// keeps it.
    pub done: Vec<bool>,
    /// Records that were removed by their prefix.
    pub removed: usize,
    /// What the tier gave up for what was written.
    pub evicted: Vec<PageKey>,
    /// The tier could not be reached, or not all of it: nothing follows from what was not done.
    pub failed: bool,
}

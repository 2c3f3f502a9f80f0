//! A level of page records below host memory: a disk, a cluster of Redis, or one of your own.
//!
//! A tier maps content keys to records (`record.rs`) and knows nothing of pages, sequences or the
//! engine. Content keys make it simple: a key's record never changes, so there is nothing to
//! invalidate, a record may be lost at any time, and writing it twice does no harm. A tier is
//! called from several threads at once, with a batch in every call, and never from the engine's
//! own thread.
//!
//! What a tier gives is not trusted: whoever reads a record decodes it, and takes a fault for a
//! miss.

use std::sync::Arc;

use terrace_cache::PageKey;
use terrace_cache::placement::Retention;

use crate::tier_error::TierError;

pub trait PageTier: Send + Sync {
    /// "disk", "redis": in metrics and logs.
    fn name(&self) -> &str;

    /// Every key that it has now, where this process alone writes to it; `None` where others write
    /// too, and each look-up must ask.
    fn listed(&self) -> Option<Vec<PageKey>>;

    /// Which of `keys` it has, in their order.
    fn contains_many(&self, keys: &[PageKey]) -> Result<Vec<bool>, TierError>;

    /// Calls `found` with the index of a key and its record, for each key that is there: in any
    /// order, one call at a time, maybe from another thread. After an error it has been called for
    /// those that were read.
    fn get_many(&self, keys: &[PageKey], found: &mut FoundRecord<'_>) -> Result<(), TierError>;

    /// Keeps the records that it has room for. After an error some may have been kept or given up
    /// all the same; look-ups say which.
    fn put_many(&self, records: &[TierRecord<'_>]) -> Result<Stored, TierError>;

    /// Forgets those of `keys` that it has.
    fn remove_many(&self, keys: &[PageKey]) -> Result<(), TierError>;

    /// Forgets every record whose key begins with `prefix`, whoever has put it, and erases its
    /// bytes; how many there were. After `Ok` none is left of those that were there when it was
    /// called. It may look at all records: it is for what must be gone.
    fn remove_prefix(&self, prefix: &[u8]) -> Result<usize, TierError>;

    /// Returns when all that was put survives a power cut, where the tier can promise that.
    fn sync(&self) -> Result<(), TierError> {
        Ok(())
    }

    fn usage(&self) -> TierUsage;
}

/// For who keeps another way to it.
impl<T: PageTier> PageTier for Arc<T> {
    fn name(&self) -> &str {
        T::name(self)
    }

    fn listed(&self) -> Option<Vec<PageKey>> {
        T::listed(self)
    }

    fn contains_many(&self, keys: &[PageKey]) -> Result<Vec<bool>, TierError> {
        T::contains_many(self, keys)
    }

    fn get_many(&self, keys: &[PageKey], found: &mut FoundRecord<'_>) -> Result<(), TierError> {
        T::get_many(self, keys, found)
    }

    fn put_many(&self, records: &[TierRecord<'_>]) -> Result<Stored, TierError> {
        T::put_many(self, records)
    }

    fn remove_many(&self, keys: &[PageKey]) -> Result<(), TierError> {
        T::remove_many(self, keys)
    }

    fn remove_prefix(&self, prefix: &[u8]) -> Result<usize, TierError> {
        T::remove_prefix(self, prefix)
    }

    fn sync(&self) -> Result<(), TierError> {
        T::sync(self)
    }

    fn usage(&self) -> TierUsage {
        T::usage(self)
    }
}

/// What [`PageTier::get_many`] calls with the index of a key and its record.
pub type FoundRecord<'a> = dyn FnMut(usize, &[u8]) + Send + 'a;

/// A page on its way down.
#[derive(Clone, Copy, Debug)]
pub struct TierRecord<'a> {
    pub key: PageKey,
    /// Header and page, as `record::encode` made them.
    pub bytes: &'a [u8],
    pub retention: TierRetention,
}

/// How long a record is worth its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierRetention {
    /// 0 to 100; a tier that chooses gives up the lowest first.
    pub priority: u8,
    /// From now on; afterwards it is the first to go.
    pub ttl_ms: Option<u64>,
}

impl Default for TierRetention {
    fn default() -> Self {
        TierRetention { priority: Retention::DEFAULT_PRIORITY, ttl_ms: None }
    }
}

/// What became of the records of a [`PageTier::put_many`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// For each record, whether the tier has it now.
    pub kept: Vec<bool>,
    /// Other keys that it has given up for them.
    pub evicted: Vec<PageKey>,
}

/// What a tier holds. `None` is what it does not know without asking others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierUsage {
    pub used_bytes: Option<u64>,
    pub budget_bytes: Option<u64>,
    pub records: Option<usize>,
    /// Records that it found damaged when it was asked for them, and has dropped, since it was
    /// opened.
    pub damaged: u64,
}

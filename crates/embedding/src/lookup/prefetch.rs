//! A hint that keys will be looked up soon: their rows come into the hot caches meanwhile.

use std::sync::Arc;

use terrace_kernels::dedupe_keys;

use super::served_table::ServedTable;
use crate::key_kind::KeyError;

/// What became of the keys of a hint, in all hot caches of the table together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefetched {
    /// Different keys.
    pub unique: usize,
    /// Rows that are on their way now because of it.
    pub queued: usize,
    /// Rows that were on their way already.
    pub pending: usize,
    /// Rows that were left out because too many fills are waiting.
    pub dropped: usize,
}

/// Of one fill: no thread is held for long, and what is left out is a part.
const FILL_KEYS: usize = 4 << 10;

impl ServedTable {
    /// Has rows brought into every hot cache by others, and does not wait for them. A table without
    /// a hot cache has nothing to bring them into: then nothing is queued.
    pub fn prefetch(self: &Arc<Self>, keys: &[i64]) -> Result<Prefetched, KeyError> {
        self.spec().key_kind.check(keys)?;
        let (mut unique, mut inverse) = (Vec::new(), Vec::new());
        dedupe_keys(keys, &mut unique, &mut inverse);
        let mut prefetched = Prefetched { unique: unique.len(), ..Prefetched::default() };
        for cache in 0..self.caches().len() {
            for keys in unique.chunks(FILL_KEYS) {
                let deferred = self.defer(cache, keys);
                prefetched.queued += deferred.queued;
                prefetched.dropped += deferred.dropped;
                prefetched.pending += keys.len() - deferred.queued - deferred.dropped;
            }
        }
        Ok(prefetched)
    }
}

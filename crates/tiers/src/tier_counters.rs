//! What a tier has done since the process started, for metrics.

use crate::call_guard::CallCounters;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounters {
    pub records: RecordCounters,
    pub calls: CallCounters,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCounters {
    /// Records that were asked for and given.
    pub hits: u64,
    /// Records that were asked for and not given, whatever the reason.
    pub misses: u64,
    pub read_bytes: u64,
    /// Of the misses, records that were there and were damaged or not what they should be.
    pub damaged: u64,
    /// Records that were put and kept.
    pub kept: u64,
    /// Records that were put and not kept, whatever the reason.
    pub not_kept: u64,
    pub written_bytes: u64,
    /// Records that were given up for others.
    pub evicted: u64,
}

//! What a tier has done since the process started, for metrics.

use crate::tier_error::TierError;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounters {
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
    /// Calls that failed, by [`TierError::KINDS`].
    pub errors: [u64; TierError::KINDS.len()],
    /// Calls that a breaker refused.
    pub refused: u64,
    /// How often a breaker has opened.
    pub opened: u64,
    /// In calls that went through, of all threads together.
    pub read_us: u64,
    pub write_us: u64,
    /// Whether a breaker refuses calls now.
    pub reads_are_refused: bool,
    pub writes_are_refused: bool,
}

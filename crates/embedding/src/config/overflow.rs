//! What happens when a partition of a level has more rows than it may have.

use super::fields::{Choice, Fields};
use super::generation::Generation;
use super::scalar::Reals;

#[derive(Clone, Debug, PartialEq)]
pub struct OverflowConfig {
    /// Rows that a partition may have; more of them, and it overflows.
    pub margin: u64,
    /// Which rows leave.
    pub policy: OverflowPolicy,
    /// The share of `margin` that is left afterwards; above 0 and below 1.
    pub target: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowPolicy {
    EvictRandom,
    EvictLeastUsed,
    EvictOldest,
}

const POLICIES: [Choice<OverflowPolicy>; 3] = [
    (&["evict_random", "random"], OverflowPolicy::EvictRandom),
    (&["evict_least_used", "least_used"], OverflowPolicy::EvictLeastUsed),
    (&["evict_oldest", "oldest"], OverflowPolicy::EvictOldest),
];

impl OverflowConfig {
    pub(super) fn read(fields: &mut Fields<'_>, generation: Generation) -> Self {
        let policy = fields.choice("overflow_policy", &POLICIES);
        let default_policy = match generation {
            Generation::Last => OverflowPolicy::EvictRandom,
            Generation::Older => OverflowPolicy::EvictOldest,
        };
        OverflowConfig {
            margin: fields.whole("overflow_margin", 1..=u64::MAX).unwrap_or(u64::MAX),
            policy: policy.unwrap_or(default_policy),
            target: fields.real("overflow_resolution_target", Reals::InnerFraction).unwrap_or(0.8),
        }
    }
}

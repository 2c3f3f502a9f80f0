//! What a consumer has done since it was started, and how far behind it is.

use std::time::{Duration, Instant};

use super::drop_reason::DropReason;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerCounters {
    /// That have come, whatever was in them.
    pub messages: u64,
    /// That were applied; of keys that come several times in a delivery, one.
    pub rows: u64,
    /// Versions of dense weights that were applied.
    pub dense_versions: u64,
    pub beacons: u64,
    /// By [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Calls of the sink that failed.
    pub apply_errors: u64,
    /// Calls of the sink with what had failed before.
    pub retries: u64,
    /// That the broker has confirmed.
    pub commits: u64,
    pub commit_errors: u64,
    /// By name.
    pub topics: Vec<TopicLag>,
    /// How long all that is published has been applied and nothing has come; `None`: it has not, or
    /// nobody knows.
    pub at_end_for: Option<Duration>,
    /// All that was published by then is applied, as far as the last second knows; also while more
    /// comes all the time. `None`: nobody knows yet.
    pub applied_until: Option<Instant>,
    /// Whether a broker answered within the last second or two.
    pub is_connected: bool,
    /// The last that Kafka's client had to say.
    pub last_error: Option<String>,
    /// Whether its thread lives.
    pub is_running: bool,
}

/// How far behind a topic is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicLag {
    pub topic: String,
    /// In the partitions that this consumer has: messages that are published and neither applied
    /// nor dropped, as of the last second. It stands still while the topic is not read because its
    /// sink fails.
    pub messages: u64,
    /// Since the last message that was applied was published. It grows while nothing is published.
    pub age_ms: Option<u64>,
}

impl ConsumerCounters {
    pub fn dropped_for(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_stands_at_its_own_place() {
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index, "{}", reason.name());
        }
    }
}

//! How a consumer of updates is set up.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use rdkafka::ClientConfig;

use super::feed_error::FeedError;
use super::update_batcher::BatchLimits;

/// Kafka counts the framing of a message among its bytes.
const MESSAGE_OVERHEAD_BYTES: usize = 1024;
const RECEIVE_BUFFER_MOST: usize = 512 << 20;
const STATISTICS_INTERVAL_MS: u64 = 1000;
const HEARTBEAT_LONGEST_MS: u64 = 3000;
const RECONNECT_LONGEST_MS: u64 = 2000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateConsumerConfig {
    /// `host:port`, separated by `,` or `;`.
    pub brokers: String,
    /// Keeps what was committed.
    pub group_id: String,
    pub reads: PartitionsRead,
    /// Names of topics; where a group shares them, also POSIX extended regular expressions that
    /// begin with `^`.
    pub topic_patterns: Vec<String>,
    pub start: StartAt,
    /// Topics that are read from times of their own. Offsets are committed, or not, as `start`
    /// says.
    pub topic_starts: BTreeMap<String, TopicStart>,
    /// Partitions that were read in this process before, and where that ended: there it goes on,
    /// whatever else is said. Only where all partitions are read.
    pub resume_at: HashMap<(String, i32), i64>,
    /// How soon new topics are found.
    pub metadata_refresh_interval_ms: u64,
    /// The longest message that is expected; the brokers' `message.max.bytes` allows 1024 more.
    pub receive_buffer_size: usize,
    /// After so long without a message, what is buffered is delivered.
    pub poll_timeout_ms: u64,
    /// Keys of one delivery.
    pub max_batch_size: usize,
    /// Before a delivery that failed is tried again; doubled with each further failure.
    pub failure_backoff_ms: u64,
    /// Messages after which, at the latest, everything is delivered and committed.
    pub max_commit_interval: usize,
    /// A member of the group that is silent for so long loses its partitions to others.
    pub session_timeout_ms: u64,
}

/// Which partitions of its topics a consumer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionsRead {
    /// Those that its group gives it: the consumers of a group share them.
    OfGroup,
    /// All, as no member of its group: nobody takes them away.
    All,
}

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// After what the group has committed; at the earliest message where it has committed nothing.
    Committed,
    /// At the first message that was published at this time or later, in ms since 1970: for what
    /// does not survive a restart. Nothing is committed. A partition that goes and comes back is
    /// read on from where it was.
    Time(i64),
}

/// Where reading a topic begins whose table was loaded from files of a certain time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicStart {
    /// At the first message that was published then or later, in ms since 1970; behind what the
    /// group has committed, where that is later.
    pub time_ms: i64,
    /// There in any case: what was applied is not there any more.
    pub is_replay: bool,
}

impl UpdateConsumerConfig {
    /// With the defaults of the original, and of Kafka.
    pub fn new(brokers: String, group_id: String, topic_patterns: Vec<String>) -> Self {
        UpdateConsumerConfig {
            brokers,
            group_id,
            reads: PartitionsRead::OfGroup,
            topic_patterns,
            start: StartAt::Committed,
            topic_starts: BTreeMap::new(),
            resume_at: HashMap::new(),
            metadata_refresh_interval_ms: 30_000,
            receive_buffer_size: 262_144,
            poll_timeout_ms: 500,
            max_batch_size: 8192,
            failure_backoff_ms: 50,
            max_commit_interval: 32,
            session_timeout_ms: 45_000,
        }
    }

    /// When a topic is read from; `None`: from what is committed.
    pub(super) fn start_of(&self, topic: &str) -> Option<TopicStart> {
        let of_topic = self.topic_starts.get(topic).copied();
        match self.start {
            StartAt::Committed => of_topic,
            StartAt::Time(of_all) => {
                let time_ms = of_topic.map_or(of_all, |start| start.time_ms);
                Some(TopicStart { time_ms, is_replay: true })
            }
        }
    }

    /// Whether what is committed does not count for a topic.
    pub(super) fn is_replayed(&self, topic: &str) -> bool {
        self.start_of(topic).is_some_and(|start| start.is_replay)
    }

    /// What the client would not refuse, or not say why.
    pub(super) fn check(&self) -> Result<(), FeedError> {
        let refuse = |what: &str| Err(FeedError::Config(what.into()));
        if self.topic_patterns.is_empty() {
            return refuse("no topic is named");
        }
        let is_pattern = |name: &String| name.starts_with('^');
        if self.reads == PartitionsRead::All && self.topic_patterns.iter().any(is_pattern) {
            return refuse("topics that are read whole are named, and not matched by patterns");
        }
        if self.max_batch_size == 0 || self.max_commit_interval == 0 {
            return refuse("max_batch_size and max_commit_interval are at least 1");
        }
        if self.receive_buffer_size > RECEIVE_BUFFER_MOST {
            return refuse("receive_buffer_size is at most 512 MiB");
        }
        Ok(())
    }

    /// Whether it alone says what is committed for its group.
    pub(super) fn commits_alone(&self) -> bool {
        (self.reads, self.start) == (PartitionsRead::All, StartAt::Committed)
    }

    pub(super) fn metadata_refresh_interval(&self) -> Duration {
        Duration::from_millis(self.metadata_refresh_interval_ms.max(1))
    }

    pub(super) fn limits(&self) -> BatchLimits {
        BatchLimits {
            keys_most: self.max_batch_size,
            messages_per_commit: self.max_commit_interval,
        }
    }

    pub(super) fn poll_timeout(&self) -> Duration {
        Duration::from_millis(self.poll_timeout_ms)
    }

    pub(super) fn failure_backoff(&self) -> Duration {
        Duration::from_millis(self.failure_backoff_ms.max(1))
    }

    pub(super) fn client(&self) -> ClientConfig {
        let fetch_bytes = self.receive_buffer_size + MESSAGE_OVERHEAD_BYTES;
        let heartbeat_ms = (self.session_timeout_ms / 3).clamp(1, HEARTBEAT_LONGEST_MS);
        let mut client = ClientConfig::new();
        client
            .set("bootstrap.servers", self.brokers.replace(';', ","))
            .set("client.id", "terrace")
            .set("group.id", &self.group_id)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("allow.auto.create.topics", "false")
            .set("enable.partition.eof", "true")
            // Eager ones: all partitions are revoked at once.
            .set("partition.assignment.strategy", "range,roundrobin")
            .set("session.timeout.ms", self.session_timeout_ms.to_string())
            .set("heartbeat.interval.ms", heartbeat_ms.to_string())
            .set("check.crcs", "true")
            .set("max.partition.fetch.bytes", fetch_bytes.to_string())
            .set(
                "topic.metadata.refresh.interval.ms",
                self.metadata_refresh_interval_ms.to_string(),
            )
            .set("reconnect.backoff.max.ms", RECONNECT_LONGEST_MS.to_string())
            .set("statistics.interval.ms", STATISTICS_INTERVAL_MS.to_string());
        client
    }
}

/// The pattern of one topic: unlike its name, it may be subscribed to before the topic is there.
pub fn topic_pattern(topic: &str) -> String {
    format!("^{}$", topic.replace('.', "\\."))
}

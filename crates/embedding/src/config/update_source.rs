//! Where new rows come from while models are served.

use std::time::Duration;

use super::batch_sizes::BATCH_MAX;
use super::fields::{Choice, Fields, Section};
use super::generation::Generation;
use super::node_address::NodeAddress;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaConfig {
    /// At least one.
    pub brokers: Vec<NodeAddress>,
    /// How often new topics are looked for.
    pub metadata_refresh_interval: Duration,
    /// Bytes of the largest message; brokers must allow 1024 more.
    pub receive_buffer_bytes: usize,
    pub poll_timeout: Duration,
    /// Keys that are handed to the levels together.
    pub max_batch_size: usize,
    /// How long to wait after a level has failed to take rows.
    pub failure_backoff: Duration,
    /// Messages after which what was taken is committed, at the latest.
    pub max_commit_interval: u32,
}

const KINDS: [Choice<bool>; 2] =
    [(&["null", "none"], false), (&["kafka_message_queue", "kafka_mq", "kafka"], true)];
const FIELDS: [&str; 8] = [
    "brokers",
    "metadata_refresh_interval_ms",
    "receive_buffer_size",
    "max_receive_buffer_size",
    "poll_timeout_ms",
    "max_batch_size",
    "failure_backoff_ms",
    "max_commit_interval",
];
const MILLISECONDS_MAX: u64 = 86_400_000;

impl KafkaConfig {
    pub(super) fn read(top: &mut Fields<'_>, generation: Generation) -> Option<Self> {
        let Section::Given(mut fields) = top.section("update_source") else { return None };
        let is_kafka = fields.choice("type", &KINDS).unwrap_or(false);
        let config = is_kafka.then(|| Self::of_kafka(&mut fields, generation));
        fields.accept(&FIELDS);
        fields.finish();
        config
    }

    fn of_kafka(fields: &mut Fields<'_>, generation: Generation) -> Self {
        let default = NodeAddress { host: "127.0.0.1".to_owned(), port: 9092 };
        let brokers = NodeAddress::read(fields, "brokers", default);
        let mut milliseconds = |name, default, least| {
            let given = fields.milliseconds(name, least..=MILLISECONDS_MAX);
            given.unwrap_or(Duration::from_millis(default))
        };
        let metadata_refresh_interval = milliseconds("metadata_refresh_interval_ms", 30_000, 1);
        let poll_timeout = milliseconds("poll_timeout_ms", 500, 1);
        let failure_backoff = milliseconds("failure_backoff_ms", 50, 0);
        let receive_bytes = fields.whole("receive_buffer_size", 1..=1 << 30);
        let batch = fields.whole("max_batch_size", 1..=BATCH_MAX);
        // Its buffer counted messages, and was committed when it was full.
        let buffered = fields.whole("max_receive_buffer_size", 1..=BATCH_MAX);
        let commit = fields.whole("max_commit_interval", 1..=BATCH_MAX).or(buffered);
        KafkaConfig {
            brokers,
            metadata_refresh_interval,
            receive_buffer_bytes: receive_bytes.unwrap_or(256 << 10) as usize,
            poll_timeout,
            max_batch_size: batch.map_or(generation.update_batch(), |keys| keys as usize),
            failure_backoff,
            max_commit_interval: commit.map_or(generation.commit_interval(), |n| n as u32),
        }
    }
}

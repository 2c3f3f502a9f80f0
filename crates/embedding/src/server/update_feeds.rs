//! The consumers of updates that tables which start together have: one for what is this server's
//! own, one for what it shares.
//!
//! A server's own levels and hot caches see all updates, so their consumer reads every partition;
//! its group only keeps how far storages have come. Redis is written by one server of all that
//! share it, so they are one group. Only what survives a restart commits: memory is filled again,
//! and then reads again from the time of the files it was filled from.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use super::dense_versions::DenseVersions;
use super::fed_table::{FedTable, GroupEnds};
use super::table_updates::{TableUpdates, UpdatedTable};
use crate::config::KafkaConfig;
use crate::feed::{
    ConsumerCounters, ConsumerWatch, FeedError, Offsets, PartitionsRead, StartAt, TopicStart,
    UpdateConsumer, UpdateConsumerConfig, topic_pattern,
};
use crate::lookup::UpdateScope;

pub struct UpdateFeeds {
    own: UpdateConsumer,
    /// `None` where nothing is shared.
    shared: Option<UpdateConsumer>,
}

/// Where updates come from, and for whom.
#[derive(Clone)]
pub struct FeedSource {
    pub kafka: KafkaConfig,
    pub host_name: String,
    /// Whether the server's own levels survive a restart.
    pub keeps_rows: bool,
}

/// A topic, and the table that its updates are for.
pub struct FedTopic {
    pub topic: String,
    pub fed: Arc<FedTable>,
}

/// Dense weights that are read, too.
pub struct FedDense<'a> {
    pub versions: &'a Arc<DenseVersions>,
    /// In ms since 1970.
    pub since_ms: i64,
}

impl UpdateFeeds {
    /// No broker needs to answer. All of the tables' groups have the same ends.
    pub fn start(
        source: &FeedSource,
        ends: &GroupEnds,
        topics: &[FedTopic],
        dense: Option<&FedDense<'_>>,
    ) -> Result<Self, FeedError> {
        let own = own_config(source, &ends.own, topics, dense);
        let weights = dense.map_or(Weak::new(), |dense| Arc::downgrade(dense.versions));
        let sink = TableUpdates::new(UpdateScope::Own, by_topic(topics), weights);
        let own = UpdateConsumer::start(own, Arc::new(sink))?;
        let shared = topics.iter().filter(|it| it.fed.is_shared);
        let shared: Vec<FedTopic> = shared.map(FedTopic::again).collect();
        let shared = match shared.is_empty() {
            true => None,
            false => {
                // As patterns: topics need not be there yet.
                let patterns = shared.iter().map(|it| topic_pattern(&it.topic)).collect();
                let mut config =
                    config(&source.kafka, format!("hps.volatile{}", ends.shared), patterns);
                config.topic_starts = starts(&shared, |_| false);
                let sink = TableUpdates::new(UpdateScope::Shared, by_topic(&shared), Weak::new());
                Some(UpdateConsumer::start(config, Arc::new(sink))?)
            }
        };
        Ok(UpdateFeeds { own, shared })
    }

    /// Reads again, for Redis, all that was published since a table's files were written.
    pub fn replay_shared(
        source: &FeedSource,
        fed: &Arc<FedTable>,
    ) -> Result<Option<UpdateConsumer>, FeedError> {
        let fed_topic = |topic| FedTopic { topic, fed: Arc::clone(fed) };
        let topics: Vec<FedTopic> = fed.topics().into_iter().map(fed_topic).collect();
        if topics.is_empty() {
            return Ok(None);
        }
        let group = format!("hps.volatile.{}.replay", source.host_name);
        let names = topics.iter().map(|it| it.topic.clone()).collect();
        let mut config = config(&source.kafka, group, names);
        config.reads = PartitionsRead::All;
        config.start = StartAt::Time(fed.version_ms as i64);
        let sink = TableUpdates::new(UpdateScope::Shared, by_topic(&topics), Weak::new());
        UpdateConsumer::start(config, Arc::new(sink)).map(Some)
    }

    /// Up to where it was applied to the server's own levels.
    pub fn end_topic(&self, topic: &str) -> Offsets {
        if let Some(shared) = &self.shared {
            shared.end_topic(topic);
        }
        self.own.end_topic(topic)
    }

    pub fn watch_own(&self) -> ConsumerWatch {
        self.own.watch()
    }

    pub fn consumers(&self) -> impl Iterator<Item = (UpdateScope, ConsumerCounters)> {
        let shared = self.shared.iter().map(|it| (UpdateScope::Shared, it.counters()));
        std::iter::once((UpdateScope::Own, self.own.counters())).chain(shared)
    }
}

impl FedTopic {
    fn again(&self) -> FedTopic {
        FedTopic { topic: self.topic.clone(), fed: Arc::clone(&self.fed) }
    }
}

fn own_config(
    source: &FeedSource,
    group_end: &str,
    topics: &[FedTopic],
    dense: Option<&FedDense<'_>>,
) -> UpdateConsumerConfig {
    let level = if source.keeps_rows { "persistent" } else { "volatile" };
    let group = format!("hps.{level}.{}{group_end}", source.host_name);
    let names = topics.iter().map(|it| it.topic.clone());
    let of_dense = dense.iter().flat_map(|dense| dense.versions.topics().map(str::to_owned));
    let mut config = config(&source.kafka, group, names.chain(of_dense).collect());
    config.reads = PartitionsRead::All;
    config.topic_starts = starts(topics, |it| !it.fed.has_replayed(&it.topic));
    config.resume_at = topics.iter().flat_map(|it| it.fed.resume_at(&it.topic)).collect();
    if let Some(dense) = dense {
        // They are in memory alone: after a restart they are read again.
        let replay = TopicStart { time_ms: dense.since_ms, is_replay: true };
        let starts = dense.versions.topics().map(|topic| (topic.to_owned(), replay));
        config.topic_starts.extend(starts);
    }
    if !source.keeps_rows {
        let oldest_ms = topics.iter().map(|it| it.fed.version_ms).min().unwrap_or(0);
        config.start = StartAt::Time(oldest_ms as i64);
    }
    config
}

fn config(kafka: &KafkaConfig, group: String, topics: Vec<String>) -> UpdateConsumerConfig {
    let brokers: Vec<String> = kafka.brokers.iter().map(ToString::to_string).collect();
    UpdateConsumerConfig {
        metadata_refresh_interval_ms: kafka.metadata_refresh_interval.as_millis() as u64,
        receive_buffer_size: kafka.receive_buffer_bytes,
        poll_timeout_ms: kafka.poll_timeout.as_millis() as u64,
        max_batch_size: kafka.max_batch_size,
        failure_backoff_ms: kafka.failure_backoff.as_millis() as u64,
        max_commit_interval: kafka.max_commit_interval as usize,
        ..UpdateConsumerConfig::new(brokers.join(","), group, topics)
    }
}

fn starts(
    topics: &[FedTopic],
    is_replay: impl Fn(&FedTopic) -> bool,
) -> BTreeMap<String, TopicStart> {
    let start = |it: &FedTopic| {
        let time_ms = it.fed.version_ms as i64;
        (it.topic.clone(), TopicStart { time_ms, is_replay: is_replay(it) })
    };
    topics.iter().map(start).collect()
}

fn by_topic(topics: &[FedTopic]) -> HashMap<String, UpdatedTable> {
    let table = |it: &FedTopic| (it.topic.clone(), UpdatedTable::new(&it.fed.table, &it.fed.spec));
    topics.iter().map(table).collect()
}

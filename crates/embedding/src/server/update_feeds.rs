//! The consumers of updates that a server has: one for what is its own, one for what it shares.
//!
//! A server's own levels and hot caches see all updates, so its group is its own. Redis is written
//! by one server of all that share it, so they are one group. Only what survives a restart commits:
//! memory is filled again, and then reads again from the time of the files it was filled from.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::dense_versions::DenseVersions;
use super::table_updates::TableUpdates;
use crate::config::KafkaConfig;
use crate::feed::{
    ConsumerCounters, FeedError, StartAt, TopicStart, UpdateConsumer, UpdateConsumerConfig,
};
use crate::levels::LevelKind;
use crate::lookup::{ServedTable, UpdateScope};

pub struct UpdateFeeds {
    own: UpdateConsumer,
    shared: Option<UpdateConsumer>,
    kafka: KafkaConfig,
    host_name: String,
}

/// A table, and where its updates begin.
pub struct FedTable {
    pub table: Arc<ServedTable>,
    pub topics: Vec<String>,
    /// When its files were written, in ms since 1970.
    pub version_ms: u64,
    /// Whether its own levels have applied all that was published since, up to what is committed.
    pub is_replayed: bool,
}

/// All that was published is applied: so long it must have been so before it is believed.
const AT_END_FOR: Duration = Duration::from_secs(2);

impl UpdateFeeds {
    /// No broker needs to answer. `keeps_rows`: the server's own levels survive a restart.
    pub fn start(
        kafka: &KafkaConfig,
        host_name: &str,
        tables: &[Arc<FedTable>],
        dense: &Arc<DenseVersions>,
        keeps_rows: bool,
    ) -> Result<Self, FeedError> {
        let all: Vec<&FedTable> = tables.iter().map(|fed| &**fed).collect();
        let own = own_config(kafka, host_name, &all, dense, keeps_rows);
        let tables = by_topic(all.iter().copied());
        let sink = TableUpdates::new(UpdateScope::Own, tables, Some(Arc::clone(dense)));
        let own = UpdateConsumer::start(own, Arc::new(sink))?;
        let shared: Vec<&FedTable> = all.into_iter().filter(|it| is_shared(&it.table)).collect();
        let shared = match shared.is_empty() {
            true => None,
            false => {
                let names = topics(shared.iter().copied());
                let mut config = config(kafka, "hps.volatile".to_owned(), names);
                config.topic_starts = starts(&shared, |_| false);
                let tables = by_topic(shared);
                let sink = TableUpdates::new(UpdateScope::Shared, tables, None);
                Some(UpdateConsumer::start(config, Arc::new(sink))?)
            }
        };
        Ok(UpdateFeeds { own, shared, kafka: kafka.clone(), host_name: host_name.to_owned() })
    }

    /// Reads again, for Redis, all that was published since a table's files were written.
    pub fn replay_shared(&self, fed: &FedTable) -> Result<UpdateConsumer, FeedError> {
        let group = format!("hps.volatile.{}.replay", self.host_name);
        let mut config = config(&self.kafka, group, topics([fed]));
        config.start = StartAt::Time(fed.version_ms as i64);
        let sink = TableUpdates::new(UpdateScope::Shared, by_topic([fed]), None);
        UpdateConsumer::start(config, Arc::new(sink))
    }

    pub fn own(&self) -> ConsumerCounters {
        self.own.counters()
    }

    /// `None` where nothing is shared.
    pub fn shared(&self) -> Option<ConsumerCounters> {
        self.shared.as_ref().map(UpdateConsumer::counters)
    }
}

/// Whether a consumer has applied all that is published.
pub fn is_at_end(counters: &ConsumerCounters) -> bool {
    counters.at_end_for.is_some_and(|time| time >= AT_END_FOR)
}

fn own_config(
    kafka: &KafkaConfig,
    host_name: &str,
    tables: &[&FedTable],
    dense: &DenseVersions,
    keeps_rows: bool,
) -> UpdateConsumerConfig {
    let group = match keeps_rows {
        true => format!("hps.persistent.{host_name}"),
        false => format!("hps.volatile.{host_name}"),
    };
    let mut names = topics(tables.iter().copied());
    names.extend(dense.topics().map(str::to_owned));
    let mut config = config(kafka, group, names);
    config.topic_starts = starts(tables, |fed| !fed.is_replayed);
    // Dense weights are in memory alone: after a restart they are read again.
    let oldest_ms = tables.iter().map(|fed| fed.version_ms).min().unwrap_or(0) as i64;
    let replay = TopicStart { time_ms: oldest_ms, is_replay: true };
    config.topic_starts.extend(dense.topics().map(|topic| (topic.to_owned(), replay)));
    if !keeps_rows {
        config.start = StartAt::Time(oldest_ms);
    }
    config
}

fn config(kafka: &KafkaConfig, group: String, topics: Vec<String>) -> UpdateConsumerConfig {
    let brokers: Vec<String> = kafka.brokers.iter().map(ToString::to_string).collect();
    // As patterns: topics need not be there yet.
    let patterns = topics.iter().map(|topic| format!("^{}$", topic.replace('.', "\\.")));
    UpdateConsumerConfig {
        metadata_refresh_interval_ms: kafka.metadata_refresh_interval.as_millis() as u64,
        receive_buffer_size: kafka.receive_buffer_bytes,
        poll_timeout_ms: kafka.poll_timeout.as_millis() as u64,
        max_batch_size: kafka.max_batch_size,
        failure_backoff_ms: kafka.failure_backoff.as_millis() as u64,
        max_commit_interval: kafka.max_commit_interval as usize,
        ..UpdateConsumerConfig::new(brokers.join(","), group, patterns.collect())
    }
}

fn starts(
    tables: &[&FedTable],
    is_replay: impl Fn(&FedTable) -> bool,
) -> BTreeMap<String, TopicStart> {
    let of_table = |fed: &&FedTable| {
        let start = TopicStart { time_ms: fed.version_ms as i64, is_replay: is_replay(fed) };
        fed.topics.iter().map(move |topic| (topic.clone(), start)).collect::<Vec<_>>()
    };
    tables.iter().flat_map(of_table).collect()
}

fn by_topic<'a>(
    tables: impl IntoIterator<Item = &'a FedTable>,
) -> HashMap<String, Arc<ServedTable>> {
    let of_table =
        |fed: &'a FedTable| fed.topics.iter().map(|topic| (topic.clone(), Arc::clone(&fed.table)));
    tables.into_iter().flat_map(of_table).collect()
}

fn topics<'a>(tables: impl IntoIterator<Item = &'a FedTable>) -> Vec<String> {
    tables.into_iter().flat_map(|fed| fed.topics.iter().cloned()).collect()
}

fn is_shared(table: &ServedTable) -> bool {
    table.levels().level(LevelKind::Redis).is_some_and(|level| level.takes_updates())
}

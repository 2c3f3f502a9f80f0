//! Updates for whole servers: a broker, what stands before it, and rows that are published with the
//! times that they claim.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::{Value, json};
use terrace_embedding::{ConsumerCounters, LevelKind, ParameterServer, UpdateScope};
use terrace_tiers::TierError;

use crate::kafka_broker::{KafkaBroker, PATIENCE, wait_until};
use crate::offset_proxy::OffsetProxy;
use crate::served::{DIM, row, table, version_of, versions};

pub const TOPIC: &str = "hps_et.m.t";
pub const DENSE_TOPIC: &str = "hps_dense.m";
pub const PARTITIONS: i32 = 2;
/// When files were written, in ms since 1970.
pub const FILES_MS: i64 = 1_700_000_000_000;

pub struct ServedFeed {
    pub broker: KafkaBroker,
    pub proxy: OffsetProxy,
    producer: BaseProducer,
    /// The newest version of each key that counts for files of this time.
    newest: RefCell<BTreeMap<i64, u32>>,
}

impl ServedFeed {
    pub fn start() -> Self {
        Self::with_topics(&[(TOPIC, PARTITIONS), (DENSE_TOPIC, 1)])
    }

    /// With their partitions.
    pub fn with_topics(topics: &[(&str, i32)]) -> Self {
        let broker = KafkaBroker::start(topics);
        let proxy = OffsetProxy::start(&broker);
        let mut client = broker.client();
        // Not to the broker itself: servers that a test starts later hold its sockets open.
        client.set("bootstrap.servers", proxy.address()).set("enable.idempotence", "true");
        let producer = client.create().expect("a producer");
        ServedFeed { broker, proxy, producer, newest: RefCell::default() }
    }

    pub fn set_broker_up(&self, is_up: bool) {
        self.proxy.set_down(!is_up);
        let cluster = &self.broker.cluster;
        let set = if is_up { cluster.broker_up(-1) } else { cluster.broker_down(-1) };
        set.expect("a broker");
    }

    /// The `update_source` of a configuration.
    pub fn source(&self) -> Value {
        update_source(&self.proxy.address())
    }

    /// One version of some keys, in a message for each partition, as if published at that time.
    pub fn publish_at(&self, keys: &[i64], version: u32, time_ms: i64) {
        self.queue_at(keys, version, time_ms);
        self.producer.flush(PATIENCE).expect("a broker that answers");
    }

    /// As [`publish_at`](Self::publish_at), and does not wait for the broker.
    pub fn queue_at(&self, keys: &[i64], version: u32, time_ms: i64) {
        for partition in 0..PARTITIONS {
            let of = |key: &&i64| key.rem_euclid(i64::from(PARTITIONS)) == i64::from(partition);
            let keys: Vec<i64> = keys.iter().filter(of).copied().collect();
            if !keys.is_empty() {
                let rows = keys.iter().map(|key| (*key, row(*key, version)));
                self.send(TOPIC, partition, &payload(rows), time_ms);
            }
        }
        self.newest.borrow_mut().extend(keys.iter().map(|key| (*key, version)));
    }

    pub fn publish(&self, keys: &[i64], version: u32) {
        self.publish_at(keys, version, FILES_MS + 1_000);
    }

    /// Bytes as they are.
    pub fn send(&self, topic: &str, partition: i32, payload: &[u8], time_ms: i64) {
        self.proxy.add_time(topic, partition, time_ms);
        let record = BaseRecord::<(), [u8]>::to(topic).partition(partition).payload(payload);
        let sent = self.producer.send(record.timestamp(time_ms));
        sent.map_err(|(error, _)| error).expect("a free queue");
    }

    pub fn flush(&self) {
        self.producer.flush(PATIENCE).expect("a broker that answers");
    }

    /// The version that a key of the files must come to have.
    pub fn newest(&self, key: i64, of_files: u32) -> u32 {
        self.newest.borrow().get(&key).copied().unwrap_or(of_files)
    }

    /// Waits until every key has its newest version, in look-ups and on every level that has it.
    #[track_caller]
    pub fn wait_for_newest(&self, server: &ParameterServer, keys: &[i64], of_files: u32) {
        let want: Vec<_> = keys.iter().map(|key| Some(self.newest(*key, of_files))).collect();
        wait_until("every key has its newest row", || versions(server, keys) == want);
        for level in table(server).levels().levels() {
            wait_until(&format!("{} has no old row", level.name()), || {
                let found = level_versions(server, level.kind(), keys).unwrap_or_default();
                let pairs = found.iter().zip(&want);
                !found.is_empty() && pairs.into_iter().all(|(it, want)| it.is_none() || it == want)
            });
        }
    }
}

pub fn update_source(brokers: &str) -> Value {
    json!({
        "type": "kafka",
        "brokers": brokers,
        "poll_timeout_ms": 100,
        "metadata_refresh_interval_ms": 500,
        "failure_backoff_ms": 20,
        "max_commit_interval": 4,
        "max_batch_size": 500,
    })
}

/// The bytes of a message.
pub fn payload(rows: impl Iterator<Item = (i64, Vec<f32>)>) -> Vec<u8> {
    let value_bytes = (DIM * 4) as u32;
    let mut payload = [0x5254_4348u32.to_le_bytes(), value_bytes.to_le_bytes()].concat();
    for (key, row) in rows {
        payload.extend(key.to_le_bytes());
        payload.extend(row.iter().flat_map(|number| number.to_le_bytes()));
    }
    payload
}

/// The versions of keys on one level.
pub fn level_versions(
    server: &ParameterServer,
    kind: LevelKind,
    keys: &[i64],
) -> Result<Vec<Option<u32>>, TierError> {
    let store = table(server).levels().level(kind).expect("a level").store();
    let (mut rows, mut found) = (vec![0.0; keys.len() * DIM], vec![false; keys.len()]);
    store.get_many(keys, &mut rows, &mut found)?;
    let version = |(index, key): (usize, &i64)| {
        found[index].then(|| version_of(*key, &rows[index * DIM..][..DIM])).flatten()
    };
    Ok(keys.iter().enumerate().map(version).collect())
}

/// When files were written.
pub fn set_time(folder: &Path, time_ms: i64) {
    for name in ["key", "emb_vector"] {
        let file = File::options().append(true).open(folder.join(name)).expect("a file");
        let time = UNIX_EPOCH + Duration::from_millis(time_ms as u64);
        file.set_modified(time).expect("a file of ours");
    }
}

pub fn own(server: &ParameterServer) -> ConsumerCounters {
    counters(server, UpdateScope::Own)
}

#[track_caller]
pub fn counters(server: &ParameterServer, scope: UpdateScope) -> ConsumerCounters {
    let mut all = server.consumers().into_iter();
    all.find(|(of, _)| *of == scope).expect("a consumer").1
}

/// Until all that is published is applied, and has been for a while.
#[track_caller]
pub fn wait_until_at_end(server: &ParameterServer) {
    wait_until("all updates have come", || {
        let is_at_end = |it: &ConsumerCounters| {
            it.at_end_for.is_some_and(|time| time >= Duration::from_millis(2_500))
        };
        server.consumers().iter().all(|(_, counters)| is_at_end(counters))
    });
}

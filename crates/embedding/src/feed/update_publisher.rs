//! Publishes new rows and new dense weights to Kafka.
//!
//! Rows go in messages without a Kafka key. Keys are grouped by the rule of partitions over
//! [`GROUPS`] groups, and a group has one Kafka partition: so all values of a key are in one, in
//! the order in which they were published. The parts of dense weights are all in partition 0. The
//! producer is idempotent: what is sent again after a failure is in a partition once.
//!
//! It creates no topics. Where the brokers create those that are asked for, they do so here, too,
//! with as many partitions as they are set up for. A partition count that grows moves keys to other
//! partitions, and updates of before and after may then be read in any order.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientConfig, ClientContext, Message};

use super::dense_message::DensePart;
use super::feed_error::{DeliveryFailure, FeedError};
use super::update_message::{HEADER_BYTES, UpdateMessage};
use crate::key_kind::KeyKind;
use crate::partition::PartitionRule;

/// As the original has it, whatever the partitions of a topic.
const GROUPS: u32 = 8;
const MESSAGE_BYTES_LEAST: usize = 1 << 10;
const MESSAGE_BYTES_MOST: usize = 512 << 20;
/// What Kafka puts around a message, at most.
const FRAMING_BYTES: usize = 1 << 10;
const DENSE_PARTITION: i32 = 0;
/// How long the partition count of a topic is believed.
const METADATA_LIFE: Duration = Duration::from_secs(30);
/// Between two tries while brokers create a topic, or take messages from a queue that is full.
const RETRY_WAIT: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdatePublisherConfig {
    /// `host:port`, separated by `,` or `;`.
    pub brokers: String,
    pub partition_rule: PartitionRule,
    pub message_bytes_most: usize,
    /// Of messages that have not arrived yet.
    pub queue_bytes_most: usize,
    /// The longest that a call waits for room in the queue, or for a topic's partitions.
    pub wait_most: Duration,
    /// The longest that a message may take until it counts as not delivered.
    pub delivery_timeout: Duration,
}

impl UpdatePublisherConfig {
    pub fn new(brokers: String, partition_rule: PartitionRule) -> Self {
        UpdatePublisherConfig {
            brokers,
            partition_rule,
            message_bytes_most: 256 << 10,
            queue_bytes_most: 64 << 20,
            wait_most: Duration::from_secs(30),
            delivery_timeout: Duration::from_secs(120),
        }
    }
}

/// What is published is queued; [`flush`](UpdatePublisher::flush) says whether it has arrived.
pub struct UpdatePublisher {
    config: UpdatePublisherConfig,
    producer: BaseProducer<Deliveries>,
    partitions: Mutex<HashMap<String, KnownPartitions>>,
}

struct KnownPartitions {
    count: u32,
    asked: Instant,
}

/// What became of messages.
#[derive(Default)]
struct Deliveries {
    /// Those that did not arrive, by topic, partition and reason.
    failures: Mutex<BTreeMap<(String, i32, String), usize>>,
    /// Of the messages that did.
    rows: AtomicU64,
}

impl UpdatePublisher {
    /// An error is one of the configuration: no broker needs to answer.
    pub fn new(config: UpdatePublisherConfig) -> Result<Self, FeedError> {
        if !(MESSAGE_BYTES_LEAST..=MESSAGE_BYTES_MOST).contains(&config.message_bytes_most) {
            return Err(FeedError::Config(format!(
                "a message has {MESSAGE_BYTES_LEAST} to {MESSAGE_BYTES_MOST} bytes at most, and \
                 not {}",
                config.message_bytes_most
            )));
        }
        let framed_bytes = config.message_bytes_most + FRAMING_BYTES;
        let queue_kbytes = (config.queue_bytes_most >> 10).max(1);
        let mut client = ClientConfig::new();
        client
            .set("bootstrap.servers", config.brokers.replace(';', ","))
            .set("client.id", "terrace")
            .set("enable.idempotence", "true")
            .set("message.max.bytes", framed_bytes.to_string())
            .set("queue.buffering.max.kbytes", queue_kbytes.to_string())
            .set("message.timeout.ms", config.delivery_timeout.as_millis().to_string());
        let producer = client.create_with_context(Deliveries::default());
        let producer = producer.map_err(|error| FeedError::Config(error.to_string()))?;
        Ok(UpdatePublisher { config, producer, partitions: Mutex::default() })
    }

    /// `rows` is [keys, dim]. Where it fails, messages before the one that failed are on their way.
    pub fn publish_rows(
        &self,
        topic: &str,
        key_kind: KeyKind,
        keys: &[i64],
        rows: &[f32],
        dim: usize,
    ) -> Result<(), FeedError> {
        if keys.len().checked_mul(dim) != Some(rows.len()) || dim == 0 {
            return Err(FeedError::Shape { keys: keys.len(), dim, floats: rows.len() });
        }
        if let Some(&key) = keys.iter().find(|&&key| !key_kind.contains(key)) {
            return Err(FeedError::Key { key, key_kind });
        }
        let row_bytes = key_kind.bytes() + dim * size_of::<f32>();
        let partitions = self.partition_count(topic)?;
        let rule = self.config.partition_rule;
        let groups: Vec<u32> = keys.iter().map(|&key| rule.partition(key, GROUPS)).collect();
        for group in 0..GROUPS {
            let all = groups.iter().zip(keys.iter().zip(rows.chunks_exact(dim)));
            let of_group = all.filter(|(of, _)| **of == group).map(|(_, (key, row))| (*key, row));
            let partition = (group % partitions) as i32;
            let bytes_most = self.config.message_bytes_most;
            UpdateMessage::encode(key_kind, dim, bytes_most, of_group, |payload| {
                let rows = (payload.len() - HEADER_BYTES) / row_bytes;
                self.send(topic, partition, payload, rows)
            })?;
        }
        Ok(())
    }

    /// Versions of one model must grow: an older one than was published before is not taken.
    pub fn publish_dense(
        &self,
        topic: &str,
        version: u64,
        safetensors: &[u8],
    ) -> Result<(), FeedError> {
        if safetensors.is_empty() {
            return Err(FeedError::NoWeights);
        }
        self.partition_count(topic)?;
        for payload in DensePart::split(version, safetensors, self.config.message_bytes_most) {
            self.send(topic, DENSE_PARTITION, &payload, 0)?;
        }
        Ok(())
    }

    /// Waits until everything that was published has arrived or failed. Failures are reported
    /// once.
    pub fn flush(&self, timeout: Duration) -> Result<(), FeedError> {
        let flushed = self.producer.flush(timeout);
        let failures = std::mem::take(&mut *self.producer.context().lock());
        if !failures.is_empty() {
            let failures = failures.into_iter().map(|((topic, partition, reason), messages)| {
                DeliveryFailure { topic, partition, reason, messages }
            });
            return Err(FeedError::NotDelivered(failures.collect()));
        }
        flushed.map_err(|_| FeedError::Undelivered {
            messages: self.producer.in_flight_count().max(0) as usize,
            waited_ms: timeout.as_millis(),
        })
    }

    /// Rows that brokers have said to have, as far as it is known here.
    pub fn acknowledged_rows(&self) -> u64 {
        self.producer.context().rows.load(Ordering::Relaxed)
    }

    /// Waits for room in the queue.
    fn send(
        &self,
        topic: &str,
        partition: i32,
        payload: &[u8],
        rows: usize,
    ) -> Result<(), FeedError> {
        let begun = Instant::now();
        loop {
            let record = BaseRecord::<(), [u8], usize>::with_opaque_to(topic, rows)
                .partition(partition)
                .payload(payload);
            let Err((error, _)) = self.producer.send(record) else {
                self.producer.poll(Duration::ZERO);
                return Ok(());
            };
            let topic = topic.to_owned();
            if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                return Err(FeedError::Refused { topic, reason: error.to_string() });
            }
            if begun.elapsed() >= self.config.wait_most {
                return Err(FeedError::QueueFull { topic, waited_ms: begun.elapsed().as_millis() });
            }
            self.producer.poll(RETRY_WAIT);
        }
    }

    /// Of a topic; at least one. Brokers that are about to create it are waited for.
    fn partition_count(&self, topic: &str) -> Result<u32, FeedError> {
        let known = || self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(topic)
            && known.asked.elapsed() < METADATA_LIFE
        {
            return Ok(known.count);
        }
        let begun = Instant::now();
        loop {
            let wait = self.config.wait_most.saturating_sub(begun.elapsed()).max(RETRY_WAIT);
            let reason = match self.ask_partition_count(topic, wait) {
                Ok(count) => {
                    let asked = Instant::now();
                    known().insert(topic.to_owned(), KnownPartitions { count, asked });
                    return Ok(count);
                }
                Err(reason) => reason,
            };
            if begun.elapsed() >= self.config.wait_most {
                let waited_ms = begun.elapsed().as_millis();
                return Err(FeedError::Partitions { topic: topic.to_owned(), waited_ms, reason });
            }
            self.producer.poll(RETRY_WAIT);
        }
    }

    fn ask_partition_count(&self, topic: &str, wait: Duration) -> Result<u32, String> {
        let metadata = self.producer.client().fetch_metadata(Some(topic), wait);
        let metadata = metadata.map_err(|error| error.to_string())?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let found = found.ok_or("the brokers do not know it")?;
        if let Some(error) = found.error() {
            return Err(RDKafkaErrorCode::from(error).to_string());
        }
        match found.partitions().len() {
            0 => Err("it has no partitions".into()),
            count => Ok(count as u32),
        }
    }
}

impl Drop for UpdatePublisher {
    fn drop(&mut self) {
        let messages = self.producer.in_flight_count();
        if messages > 0 {
            tracing::warn!("kafka: {messages} messages are dropped undelivered; flush before");
        }
    }
}

impl Deliveries {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, i32, String), usize>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Deliveries {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!("librdkafka: {facility} {message}");
    }

    /// What comes of it is said by the delivery of each message.
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!("kafka producer: {error}: {reason}");
    }
}

impl ProducerContext for Deliveries {
    /// Rows of the message.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, rows: usize) {
        match result {
            Ok(_) => {
                self.rows.fetch_add(rows as u64, Ordering::Relaxed);
            }
            Err((error, message)) => {
                let place = (message.topic().to_owned(), message.partition(), error.to_string());
                *self.lock().entry(place).or_default() += 1;
            }
        }
    }
}

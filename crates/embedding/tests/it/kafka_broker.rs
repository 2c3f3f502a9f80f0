//! A broker with topics, and what tests send to it and read from it directly.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use rdkafka::{Offset, TopicPartitionList};
use terrace_embedding::{
    PartitionRule, UpdateConsumerConfig, UpdatePublisher, UpdatePublisherConfig,
};

/// How long a test waits for something that must happen. It takes seconds at most.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct KafkaBroker {
    pub cluster: MockCluster<'static, DefaultProducerContext>,
}

#[derive(Clone, Copy)]
pub struct RawMessage<'a> {
    pub partition: i32,
    pub key: Option<&'a [u8]>,
    pub payload: &'a [u8],
    /// At which it claims to have been sent.
    pub timestamp_ms: Option<i64>,
}

impl<'a> RawMessage<'a> {
    /// In partition 0, without a key.
    pub fn new(payload: &'a [u8]) -> Self {
        RawMessage { partition: 0, key: None, payload, timestamp_ms: None }
    }
}

impl KafkaBroker {
    /// Topics with their partitions.
    pub fn start(topics: &[(&str, i32)]) -> Self {
        let cluster = MockCluster::new(1).expect("a broker");
        for (topic, partitions) in topics {
            cluster.create_topic(topic, *partitions, 1).expect("a topic");
        }
        KafkaBroker { cluster }
    }

    pub fn publisher(&self) -> UpdatePublisher {
        let brokers = self.cluster.bootstrap_servers();
        let config = UpdatePublisherConfig::new(brokers, PartitionRule::Mix);
        UpdatePublisher::new(config).expect("a publisher")
    }

    /// Of all topics of tables and models. Commits and deliveries are frequent, so that tests meet
    /// many of them.
    pub fn consumer_config(&self, group: &str) -> UpdateConsumerConfig {
        let patterns = ["^hps_et\\..+\\..+$", "^hps_dense\\..+$"].map(String::from).to_vec();
        UpdateConsumerConfig {
            metadata_refresh_interval_ms: 500,
            poll_timeout_ms: 200,
            max_batch_size: 500,
            failure_backoff_ms: 20,
            max_commit_interval: 4,
            // The broker lets a group that was there before wait for almost as long.
            session_timeout_ms: 3000,
            ..UpdateConsumerConfig::new(self.cluster.bootstrap_servers(), group.into(), patterns)
        }
    }

    /// Messages as they are.
    pub fn send_raw(&self, topic: &str, messages: &[RawMessage<'_>]) {
        let producer: BaseProducer = self.client().create().expect("a producer");
        for message in messages {
            let record = BaseRecord::<[u8], [u8]> {
                topic,
                partition: Some(message.partition),
                payload: Some(message.payload),
                key: message.key,
                timestamp: message.timestamp_ms,
                headers: None,
                delivery_opaque: (),
            };
            producer.send(record).map_err(|(error, _)| error).expect("a free queue");
        }
        producer.flush(PATIENCE).expect("a broker that answers");
    }

    /// What a group has committed of a topic's partitions.
    pub fn committed(&self, group: &str, topic: &str, partitions: i32) -> Vec<Option<i64>> {
        let consumer: BaseConsumer =
            self.client().set("group.id", group).create().expect("a consumer");
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic, 0, partitions - 1);
        let found = consumer.committed_offsets(list, PATIENCE).expect("a broker that answers");
        let offset = |partition| match found.find_partition(topic, partition)?.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        (0..partitions).map(offset).collect()
    }

    pub fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", self.cluster.bootstrap_servers());
        client
    }
}

#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited for {PATIENCE:?} until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

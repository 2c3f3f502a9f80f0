//! A Kafka broker in this process: librdkafka's own, which speaks the protocol over TCP.

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

/// Ends when it is dropped.
pub struct KafkaBroker {
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl KafkaBroker {
    /// With topics of one partition.
    pub fn start(topics: &[&str]) -> Self {
        let cluster = MockCluster::new(1).expect("a broker");
        for topic in topics {
            cluster.create_topic(topic, 1, 1).expect("a topic");
        }
        KafkaBroker { cluster }
    }

    /// `HOST:PORT`
    pub fn address(&self) -> String {
        self.cluster.bootstrap_servers()
    }
}

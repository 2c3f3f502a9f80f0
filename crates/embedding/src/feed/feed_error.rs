//! What can go wrong with publishing and consuming updates.

use thiserror::Error;

use crate::key_kind::KeyKind;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FeedError {
    #[error("kafka client: {0}; check brokers, group and topic patterns")]
    Config(String),
    #[error("cannot start the thread of a kafka consumer: {0}")]
    Thread(String),
    #[error("{keys} keys of dim {dim} need as many rows, and there are {floats} floats")]
    Shape { keys: usize, dim: usize, floats: usize },
    #[error("a row of dim {dim} cannot be in a message of at most {bytes_most} bytes")]
    RowBytes { dim: usize, bytes_most: usize },
    #[error("key {key} is not of kind {key_kind:?}; publish the table with 64-bit keys")]
    Key { key: i64, key_kind: KeyKind },
    #[error("dense weights have no bytes, and a version without weights cannot be published")]
    NoWeights,
    #[error(
        "topic {topic}: its partitions are not known after {waited_ms} ms ({reason}); check that \
         the brokers can be reached, and create the topic where they do not create it by themselves"
    )]
    Partitions { topic: String, waited_ms: u128, reason: String },
    #[error(
        "topic {topic}: the queue to the brokers is still full after {waited_ms} ms; check that \
         they can be reached, or publish more slowly"
    )]
    QueueFull { topic: String, waited_ms: u128 },
    #[error("topic {topic}: a message was not taken: {reason}")]
    Refused { topic: String, reason: String },
    /// Of all messages since the last flush.
    #[error("not delivered: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    NotDelivered(Vec<DeliveryFailure>),
    #[error("{messages} messages are not delivered yet after {waited_ms} ms; flush again")]
    Undelivered { messages: usize, waited_ms: u128 },
}

/// Messages that the brokers did not take, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[error("topic {topic} partition {partition}: {messages} messages: {reason}")]
pub struct DeliveryFailure {
    pub topic: String,
    pub partition: i32,
    pub reason: String,
    pub messages: usize,
}

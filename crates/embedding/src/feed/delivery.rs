//! What comes to a topic's queue, and what goes from it to a sink.

use super::dense_assembler::DenseWeights;
use super::update_sink::RowUpdates;

/// Where a message stands in its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePlace {
    pub partition: i32,
    pub offset: i64,
    /// When it was published, if it says so.
    pub timestamp_ms: Option<i64>,
}

/// What a sink is asked to apply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delivery<'a> {
    Rows(RowUpdates<'a>),
    Dense(&'a DenseWeights),
}

/// What a sink has applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    pub rows: usize,
    /// Of the last message of it.
    pub timestamp_ms: Option<i64>,
}

//! Who takes updates: a level of the parameter server, or whoever holds a model's dense weights.

use terrace_tiers::TierError;

use super::dense_assembler::DenseWeights;
use crate::key_kind::KeyKind;

/// An error means: not now. The consumer gives the same update again until it is taken, commits
/// nothing of it, and reads nothing more of its topic. What can never be taken must be answered
/// with `Ok`, and reported by whoever found it out.
///
/// Updates come at least once, so taking the same one again must change nothing. A call that takes
/// longer than five minutes loses its partitions to others of the group.
pub trait UpdateSink: Send + Sync {
    /// What the rows of a topic must look like; `None` where no table is known for it.
    fn wants(&self, topic: &str) -> Option<TopicTable>;

    /// Rows of one table. When it returns they are where a restart finds them, if anything is.
    fn apply(&self, topic: &str, update: &RowUpdates<'_>) -> Result<(), TierError>;

    /// The most bytes that dense weights in a topic may have; `None` where it is no topic of dense
    /// weights, or no model is known for it.
    fn wants_dense(&self, _topic: &str) -> Option<usize> {
        None
    }

    /// A whole version of a model's dense weights. Called only for topics that
    /// [`wants_dense`](Self::wants_dense) knows.
    fn apply_dense(&self, topic: &str, _weights: &DenseWeights) -> Result<(), TierError> {
        Err(TierError::Protocol(format!("topic {topic}: dense weights are not taken here")))
    }
}

/// The table that a topic is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicTable {
    pub key_kind: KeyKind,
    pub dim: usize,
}

/// New values of rows; no key stands in it twice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowUpdates<'a> {
    pub keys: &'a [i64],
    /// [keys, dim]
    pub rows: &'a [f32],
    pub dim: usize,
}

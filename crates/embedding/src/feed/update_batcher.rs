//! What to do with messages that have come: which rows are delivered together, when, and which
//! offsets may be committed.
//!
//! It decides and does nothing: it has no clock and knows no broker. Topics do not wait for each
//! other: one that cannot be applied keeps its batches while others go on.
//!
//! What always holds: an offset is given out to be committed only after everything before it, in
//! its partition, was applied or dropped for good. A message that was added is never dropped here
//! but by [`clear`](UpdateBatcher::clear), after which nothing of it was committed either.

use std::collections::BTreeMap;

use super::delivery::{Applied, Delivery, MessagePlace};
use super::dense_message::{DenseFault, DensePart};
use super::topic_queue::TopicQueue;
use super::update_message::MessageRows;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Of one delivery.
    pub keys_most: usize,
    /// After so many messages all that is here is delivered and committed.
    pub messages_per_commit: usize,
}

pub struct UpdateBatcher {
    limits: BatchLimits,
    topics: BTreeMap<String, TopicQueue>,
    /// Since everything was delivered or about to be.
    messages: usize,
    commit_is_due: bool,
}

/// Everything before `offset` is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionOffset {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
}

impl UpdateBatcher {
    pub fn new(limits: BatchLimits) -> Self {
        assert!(limits.keys_most > 0, "a delivery has at least one key");
        UpdateBatcher { limits, topics: BTreeMap::new(), messages: 0, commit_is_due: false }
    }

    pub fn add_rows(&mut self, topic: &str, at: MessagePlace, rows: MessageRows<'_>) {
        let keys_most = self.limits.keys_most;
        self.queue(topic).add_rows(at, rows, keys_most);
        self.count_message();
    }

    /// An error means that the part was dropped, and where it is one of the hash, all parts of that
    /// version. `bytes_most` counts when the first part of a topic comes.
    pub fn add_dense(
        &mut self,
        topic: &str,
        at: MessagePlace,
        part: &DensePart<'_>,
        bytes_most: usize,
    ) -> Result<(), DenseFault> {
        let added = self.queue(topic).add_dense(at, part, bytes_most);
        self.count_message();
        added
    }

    /// A message of which nothing is to be applied.
    pub fn pass_over(&mut self, topic: &str, at: MessagePlace) {
        self.queue(topic).pass_over(at);
        self.count_message();
    }

    /// Nothing more is expected for now: all that is here is delivered, then committed.
    pub fn seal_all(&mut self) {
        self.topics.values_mut().for_each(TopicQueue::seal);
        self.messages = 0;
        self.commit_is_due = true;
    }

    /// Nothing more is expected for now of partitions with this number.
    pub fn seal_partition(&mut self, partition: i32) {
        let queues = self.topics.values_mut();
        queues.filter(|queue| queue.waits_for(partition)).for_each(TopicQueue::seal);
        self.commit_is_due = true;
    }

    /// Topics of which something is to be applied now.
    pub fn ready_topics(&self) -> impl Iterator<Item = &str> {
        let ready = self.topics.iter().filter(|(_, queue)| queue.front().is_some());
        ready.map(|(topic, _)| topic.as_str())
    }

    /// What is to be applied next of a topic. It stays the same until it is applied.
    pub fn front(&self, topic: &str) -> Option<Delivery<'_>> {
        self.topics.get(topic)?.front()
    }

    /// The front of a topic was applied.
    pub fn applied(&mut self, topic: &str) -> Applied {
        self.queue(topic).pop()
    }

    /// The offsets to commit now, each once; empty where it is not time yet, or none is new.
    pub fn take_commit(&mut self) -> Vec<PartitionOffset> {
        let is_due = std::mem::take(&mut self.commit_is_due);
        if is_due { self.take_all() } else { Vec::new() }
    }

    /// As [`take_commit`](Self::take_commit), at any time: the last commit before partitions go.
    pub fn take_all(&mut self) -> Vec<PartitionOffset> {
        let mut offsets = Vec::new();
        for (topic, queue) in &mut self.topics {
            for (&partition, &offset) in &queue.applied {
                if queue.offered.insert(partition, offset) != Some(offset) {
                    offsets.push(PartitionOffset { topic: topic.clone(), partition, offset });
                }
            }
        }
        offsets
    }

    /// Gives all offsets out again, also those that were taken to be committed before.
    pub fn commit_again(&mut self) {
        self.topics.values_mut().for_each(|queue| queue.offered.clear());
        self.commit_is_due = true;
    }

    /// A partition is read from this offset on. That is committed, too, although nothing was
    /// applied: where another one was committed before, a restart would go back there.
    pub fn start(&mut self, topic: &str, partition: i32, offset: i64) {
        self.queue(topic).applied.insert(partition, offset);
    }

    /// Up to which offset a partition is applied, where this is known.
    pub fn position(&self, topic: &str, partition: i32) -> Option<i64> {
        self.topics.get(topic)?.applied.get(&partition).copied()
    }

    /// What [`position`](Self::position) would say of a topic's partitions.
    pub fn positions_of(&self, topic: &str) -> impl Iterator<Item = (i32, i64)> {
        let offsets = self.topics.get(topic).into_iter().flat_map(|queue| &queue.applied);
        offsets.map(|(&partition, &offset)| (partition, offset))
    }

    /// All that [`position`](Self::position) would say.
    pub fn positions(&self) -> impl Iterator<Item = (&str, i32, i64)> {
        self.topics.iter().flat_map(|(topic, queue)| {
            let offsets = queue.applied.iter();
            offsets.map(|(&partition, &offset)| (topic.as_str(), partition, offset))
        })
    }

    /// Partitions are read again from their positions: what was not applied comes again.
    pub fn drop_waiting(&mut self) {
        self.topics.values_mut().for_each(TopicQueue::drop_waiting);
        self.messages = 0;
        self.commit_is_due = true;
    }

    /// All partitions are revoked: what was not applied comes again, here or elsewhere.
    pub fn clear(&mut self) {
        self.topics.clear();
        self.messages = 0;
        self.commit_is_due = false;
    }

    /// Panics where the books disagree.
    #[cfg(test)]
    fn check(&self) {
        self.topics.values().for_each(|queue| queue.check(self.limits.keys_most));
        assert!(self.messages < self.limits.messages_per_commit);
    }

    fn queue(&mut self, topic: &str) -> &mut TopicQueue {
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.to_owned(), TopicQueue::default());
        }
        self.topics.get_mut(topic).expect("inserted above")
    }

    fn count_message(&mut self) {
        self.messages += 1;
        if self.messages >= self.limits.messages_per_commit {
            self.seal_all();
        }
    }
}

#[cfg(test)]
mod tests;

//! What Kafka's client calls back while it is polled, and what these calls share with the loop that
//! polls it.
//!
//! Both run on the consumer's thread, in turn: the lock is never waited for, and it is not held
//! while the client is polled.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::statistics::{Partition, Statistics};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use super::consumer_books::ConsumerBooks;
use super::consumer_config::{PartitionsRead, StartAt, UpdateConsumerConfig};
use super::end_mark::{EndMark, ReadPlace};
use super::topic_gate::TopicGate;
use super::update_batcher::{PartitionOffset, UpdateBatcher};

pub struct FeedContext {
    state: Mutex<FeedState>,
    books: Arc<ConsumerBooks>,
    gate: Arc<TopicGate>,
    config: UpdateConsumerConfig,
}

pub struct FeedState {
    pub batcher: UpdateBatcher,
    /// Topics whose front could not be applied, and which are not read until it is.
    pub retries: BTreeMap<String, Retry>,
    /// Partitions that are ours and whose first offset is not known yet.
    pub unplaced: Option<Unplaced>,
    /// Whether all partitions that are ours are read.
    pub is_placed: bool,
    pub end_mark: EndMark,
    /// Where partitions that were ours, and are not read from what is committed, are read on; all
    /// that were read, where no group shares them.
    pub resume_at: HashMap<(String, i32), i64>,
    /// No partition is wanted any more.
    pub is_closing: bool,
}

pub struct Retry {
    pub at: Instant,
    pub wait: Duration,
}

pub struct Unplaced {
    pub partitions: Vec<(String, i32)>,
    pub ask_at: Instant,
}

impl FeedContext {
    pub fn new(
        config: &UpdateConsumerConfig,
        books: Arc<ConsumerBooks>,
        gate: Arc<TopicGate>,
    ) -> Self {
        let state = FeedState {
            batcher: UpdateBatcher::new(config.limits()),
            retries: BTreeMap::new(),
            unplaced: None,
            is_placed: false,
            end_mark: EndMark::default(),
            resume_at: config.resume_at.clone(),
            is_closing: false,
        };
        FeedContext { state: Mutex::new(state), books, gate, config: config.clone() }
    }

    pub fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn assigned(&self, consumer: &BaseConsumer<Self>, partitions: &TopicPartitionList) {
        let mut state = self.lock();
        if state.is_closing {
            self.assign(consumer, &TopicPartitionList::new());
            return;
        }
        let names = names(partitions);
        if names.iter().any(|(topic, _)| self.config.start_of(topic).is_some()) {
            state.unplaced = Some(Unplaced { partitions: names, ask_at: Instant::now() });
        } else {
            state.is_placed = self.assign(consumer, partitions);
        }
    }

    /// Whether it went well.
    fn assign(&self, consumer: &BaseConsumer<Self>, partitions: &TopicPartitionList) -> bool {
        let assigned = consumer.assign(partitions);
        if let Err(error) = &assigned {
            self.books.note_client_error(format!("partitions cannot be taken: {error}"));
        }
        assigned.is_ok()
    }

    /// The last moment to commit what is applied. What is only buffered comes again.
    fn revoked(&self, consumer: &BaseConsumer<Self>, partitions: &TopicPartitionList) {
        let mut state = self.lock();
        {
            let state = &mut *state;
            let positions = state.batcher.positions();
            let replayed = positions.filter(|(topic, ..)| self.config.is_replayed(topic));
            let names = replayed.map(|(topic, partition, at)| ((topic.to_owned(), partition), at));
            state.resume_at.extend(names);
        }
        if self.config.start == StartAt::Committed && !consumer.assignment_lost() {
            let offsets = state.batcher.take_all();
            // Nobody needs the result: what is not committed comes again.
            let commit = |list| consumer.commit(&list, CommitMode::Async);
            if let Some(Err(error)) = offset_list(&offsets).map(commit) {
                self.books.count_commit_error(&error.to_string());
            }
        }
        state.batcher.clear();
        state.unplaced = None;
        state.is_placed = false;
        state.end_mark.clear();
        let is_paused = !std::mem::take(&mut state.retries).is_empty();
        // A pause would outlive the assignment.
        let resumed = if is_paused { consumer.resume(partitions) } else { Ok(()) };
        if let Err(error) = resumed.and_then(|()| consumer.unassign()) {
            self.books.note_client_error(format!("partitions cannot be given up: {error}"));
        }
    }
}

impl ClientContext for FeedContext {
    /// What matters comes as an error, too.
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!("librdkafka: {facility} {message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::PartitionEOF) => {}
            Some(RDKafkaErrorCode::AllBrokersDown) => {
                self.books.note_client_error(reason.to_owned());
                self.books.set_connected(false);
            }
            _ => self.books.note_client_error(format!("{error}: {reason}")),
        }
    }

    fn stats(&self, statistics: Statistics) {
        let is_up = |state: &str| state == "UP" || state == "UPDATE";
        let is_connected = statistics.brokers.values().any(|broker| is_up(&broker.state));
        self.books.set_connected(is_connected);
        // Where no topic is there yet, the group is never joined.
        let is_member = self.config.reads == PartitionsRead::OfGroup;
        let group = statistics.cgrp.as_ref().filter(|_| is_member);
        let is_idle = group.is_some_and(|it| it.state == "up" && it.join_state == "init");
        let mut state = self.lock();
        let is_reading = is_connected && (state.is_placed || is_idle);
        let places = places(&state.batcher, &statistics);
        let places: Vec<ReadPlace> =
            places.filter(|place| !self.gate.is_ended(&place.topic)).collect();
        let mut lags = BTreeMap::new();
        for place in &places {
            if let Some(lag) = place.lag() {
                *lags.entry(place.topic.clone()).or_default() += lag;
            }
        }
        let is_at_end = is_reading && places.iter().all(|place| place.lag() == Some(0));
        let applied_until = match is_reading {
            true => state.end_mark.applied_until(&places, Instant::now()),
            false => None,
        };
        self.books.set_lags(lags, is_at_end, applied_until);
    }
}

impl ConsumerContext for FeedContext {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        event: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        match event {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                self.assigned(consumer, partitions);
            }
            _ => self.revoked(consumer, partitions),
        }
    }
}

/// Of all partitions that are read.
fn places(batcher: &UpdateBatcher, statistics: &Statistics) -> impl Iterator<Item = ReadPlace> {
    let place = |topic: &str, partition: &Partition| {
        let known = [partition.committed_offset, partition.lo_offset];
        let position = batcher.position(topic, partition.partition);
        ReadPlace {
            topic: topic.to_owned(),
            partition: partition.partition,
            position: position.or_else(|| known.into_iter().find(|offset| *offset >= 0)),
            end: (partition.hi_offset >= 0).then_some(partition.hi_offset),
        }
    };
    statistics.topics.values().flat_map(move |topic| {
        let ours = topic.partitions.values().filter(|it| it.partition >= 0 && it.desired);
        ours.map(move |partition| place(&topic.topic, partition))
    })
}

/// `None` where there are no offsets.
pub fn offset_list(offsets: &[PartitionOffset]) -> Option<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(offsets.len());
    for PartitionOffset { topic, partition, offset } in offsets {
        list.add_partition_offset(topic, *partition, Offset::Offset(*offset))
            .expect("an offset after a message is not negative");
    }
    (!offsets.is_empty()).then_some(list)
}

fn names(partitions: &TopicPartitionList) -> Vec<(String, i32)> {
    let elements = partitions.elements();
    elements.iter().map(|element| (element.topic().to_owned(), element.partition())).collect()
}

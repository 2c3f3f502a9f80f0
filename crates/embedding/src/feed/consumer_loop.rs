//! What a consumer's thread does: it polls, sorts messages into the batcher, delivers to the sink
//! what is ready, and commits what was applied.
//!
//! Polling goes on while a sink fails, or the broker would give our partitions to others: topics
//! that cannot be applied are paused meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::BorrowedMessage;
use rdkafka::{Message, Offset, TopicPartitionList};

use super::committer::Committer;
use super::consumer_books::ConsumerBooks;
use super::consumer_config::{PartitionsRead, StartAt, UpdateConsumerConfig, topic_pattern};
use super::consumer_context::{FeedContext, FeedState, Retry, Unplaced, offset_list};
use super::delivery::{Delivery, MessagePlace};
use super::dense_message::DensePart;
use super::drop_reason::DropReason;
use super::feed_error::FeedError;
use super::start_offsets::{committed, start_offsets};
use super::topic_gate::TopicGate;
use super::update_message::UpdateMessage;
use super::update_sink::{TopicTable, UpdateSink};
use super::whole_topics::WholeTopics;

/// How soon a stop is noticed.
const POLL_LONGEST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(5);
/// For one question about offsets.
const ASK_TIMEOUT: Duration = Duration::from_millis(500);
/// Brokers forget what nobody commits for days, and topics may be silent for longer.
const COMMIT_AGAIN_AFTER: Duration = Duration::from_secs(3600);
/// Leaving the group and the last commit take a broker that answers a few milliseconds.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

pub struct ConsumerLoop {
    config: UpdateConsumerConfig,
    consumer: Arc<BaseConsumer<FeedContext>>,
    committer: Committer,
    sink: Arc<dyn UpdateSink>,
    books: Arc<ConsumerBooks>,
    gate: Arc<TopicGate>,
    /// Topics that were over when it last looked.
    ended: usize,
    /// `None` where the group says which partitions are read.
    whole: Option<WholeTopics>,
    stop: Arc<AtomicBool>,
    last_message: Instant,
    commit_again_at: Instant,
}

impl ConsumerLoop {
    /// Subscribes, if it shares topics. Nothing is asked of the brokers yet.
    pub fn new(
        config: UpdateConsumerConfig,
        sink: Arc<dyn UpdateSink>,
        books: Arc<ConsumerBooks>,
        gate: Arc<TopicGate>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, FeedError> {
        config.check()?;
        let context = FeedContext::new(&config, Arc::clone(&books), Arc::clone(&gate));
        let refused = |error: KafkaError| FeedError::Config(error.to_string());
        let consumer: BaseConsumer<FeedContext> =
            config.client().create_with_context(context).map_err(refused)?;
        let whole = match config.reads {
            PartitionsRead::OfGroup => {
                subscribe(&consumer, &config.topic_patterns).map_err(refused)?;
                None
            }
            PartitionsRead::All => {
                let topics = config.topic_patterns.iter().cloned();
                Some(WholeTopics::new(topics, config.metadata_refresh_interval()))
            }
        };
        let consumer = Arc::new(consumer);
        let committer = Committer::start(Arc::clone(&consumer), config.failure_backoff());
        let committer = committer.map_err(|error| FeedError::Thread(error.to_string()))?;
        let now = Instant::now();
        Ok(ConsumerLoop {
            config,
            consumer,
            committer,
            sink,
            books,
            gate,
            ended: 0,
            whole,
            stop,
            last_message: now,
            commit_again_at: now + COMMIT_AGAIN_AFTER,
        })
    }

    /// Until it is stopped.
    pub fn run(mut self) {
        while !self.is_stopping() {
            self.receive();
            let context = Arc::clone(self.consumer.context());
            let mut state = context.lock();
            self.follow_topics(&mut state);
            self.place(&mut state);
            self.deliver(&mut state);
            self.commit(&mut state);
        }
        self.close();
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn receive(&mut self) {
        let poll_timeout = self.config.poll_timeout();
        let until_idle = poll_timeout.saturating_sub(self.last_message.elapsed());
        let wait = if until_idle.is_zero() { poll_timeout } else { until_idle };
        let polled = self.consumer.poll(wait.min(POLL_LONGEST));
        let mut state = self.consumer.context().lock();
        match polled {
            Some(Ok(message)) => {
                self.last_message = Instant::now();
                self.take_in(&mut state, &message);
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                state.batcher.seal_partition(partition);
            }
            // The context has noted it.
            Some(Err(_)) => {}
            None => {}
        }
        if self.last_message.elapsed() >= poll_timeout {
            state.batcher.seal_all();
        }
    }

    fn take_in(&self, state: &mut FeedState, message: &BorrowedMessage<'_>) {
        let topic = message.topic();
        if self.gate.is_ended(topic) {
            return;
        }
        self.books.count_message();
        let at = MessagePlace {
            partition: message.partition(),
            offset: message.offset(),
            timestamp_ms: message.timestamp().to_millis(),
        };
        let payload = message.payload().unwrap_or_default();
        let added = if message.key().is_some_and(|key| !key.is_empty()) {
            Err((DropReason::Keyed, "it has a key".to_owned()))
        } else if let Some(table) = self.sink.wants(topic) {
            self.add_rows(state, topic, at, payload, table)
        } else if let Some(bytes_most) = self.sink.wants_dense(topic) {
            return self.add_dense(state, topic, at, payload, bytes_most);
        } else {
            Err((DropReason::UnknownTopic, "no table is known for its topic".to_owned()))
        };
        if let Err((reason, what)) = added {
            state.batcher.pass_over(topic, at);
            self.books.count_dropped(topic, reason, &what);
        }
    }

    fn add_rows(
        &self,
        state: &mut FeedState,
        topic: &str,
        at: MessagePlace,
        payload: &[u8],
        table: TopicTable,
    ) -> Result<(), (DropReason, String)> {
        match UpdateMessage::decode(payload, table.key_kind) {
            Ok(UpdateMessage::Rows(rows)) if rows.dim() == table.dim => {
                state.batcher.add_rows(topic, at, rows);
                Ok(())
            }
            Ok(UpdateMessage::Rows(rows)) => {
                let what = format!("rows of dim {} for a table of {}", rows.dim(), table.dim);
                Err((DropReason::Dim, what))
            }
            Ok(UpdateMessage::Beacon) => {
                self.books.count_beacon();
                state.batcher.pass_over(topic, at);
                Ok(())
            }
            Err(fault) => Err((fault.into(), fault.to_string())),
        }
    }

    fn add_dense(
        &self,
        state: &mut FeedState,
        topic: &str,
        at: MessagePlace,
        payload: &[u8],
        bytes_most: usize,
    ) {
        let added = match DensePart::decode(payload) {
            Ok(part) => state.batcher.add_dense(topic, at, &part, bytes_most),
            Err(fault) => {
                state.batcher.pass_over(topic, at);
                Err(fault)
            }
        };
        if let Err(fault) = added {
            self.books.count_dropped(topic, fault.into(), &fault.to_string());
        }
    }

    /// Goes on without topics that are over, and with partitions that are new.
    fn follow_topics(&mut self, state: &mut FeedState) {
        let ended = self.gate.ended();
        let failed = match &mut self.whole {
            Some(whole) => match whole.changed(&self.consumer, &self.gate, ASK_TIMEOUT) {
                Ok(None) => None,
                Ok(Some(partitions)) => self.read_all(state, partitions).err(),
                Err(error) => Some(error),
            },
            None if ended == self.ended => None,
            None => {
                let is_wanted =
                    |it: &String| !self.gate.any_ended(|topic| *it == topic_pattern(topic));
                let patterns = &mut self.config.topic_patterns;
                patterns.retain(is_wanted);
                subscribe(&self.consumer, patterns).err()
            }
        };
        self.ended = ended;
        if let Some(error) = failed {
            self.books.note_client_error(format!("the topics are not known: {error}"));
        }
    }

    /// Takes these partitions in place of those that it has. What was read and not applied comes
    /// again.
    fn read_all(&self, state: &mut FeedState, partitions: Vec<(String, i32)>) -> KafkaResult<()> {
        let positions = state.batcher.positions();
        let positions = positions.map(|(topic, partition, at)| ((topic.to_owned(), partition), at));
        state.resume_at.extend(positions.collect::<Vec<_>>());
        state.batcher.drop_waiting();
        state.end_mark.clear();
        state.is_placed = false;
        state.unplaced = Some(Unplaced { partitions, ask_at: Instant::now() });
        if !std::mem::take(&mut state.retries).is_empty() {
            // A pause would outlive the assignment.
            self.consumer.resume(&self.consumer.assignment()?)?;
        }
        self.consumer.unassign()
    }

    /// Finds out where partitions are read from, some of which start at a time.
    fn place(&self, state: &mut FeedState) {
        let due = |unplaced: &Unplaced| unplaced.ask_at <= Instant::now();
        let Some(unplaced) = state.unplaced.take_if(|unplaced| due(unplaced)) else { return };
        if let Err(error) = self.assign_from(state, &unplaced.partitions) {
            self.books.note_client_error(format!("no offsets for a start by time: {error}"));
            let ask_at = Instant::now() + self.config.failure_backoff();
            state.unplaced = Some(Unplaced { ask_at, ..unplaced });
        }
    }

    fn assign_from(&self, state: &mut FeedState, partitions: &[(String, i32)]) -> KafkaResult<()> {
        let config = &self.config;
        let is_of_group = |partition: &&(String, i32)| {
            !config.is_replayed(&partition.0) && !state.resume_at.contains_key(*partition)
        };
        let of_group: Vec<_> = partitions.iter().filter(is_of_group).cloned().collect();
        let committed = committed(&self.consumer, &of_group, ASK_TIMEOUT)?;
        let is_timed = |partition: &&(String, i32)| {
            config.start_of(&partition.0).is_some() && !state.resume_at.contains_key(*partition)
        };
        let timed: Vec<_> = partitions.iter().filter(is_timed).cloned().collect();
        let time_of =
            |topic: &str| config.start_of(topic).expect("only those that have one").time_ms;
        let starts = start_offsets(&self.consumer, &timed, &time_of, ASK_TIMEOUT)?;
        let starts = starts.into_iter().map(|start| ((start.topic, start.partition), start.offset));
        // What is committed may be older than the files that rows are of.
        let is_later = |(partition, start): &((String, i32), i64)| {
            committed.get(partition).is_none_or(|committed| start > committed)
        };
        let starts = starts.filter(is_later);
        let (replayed, of_group): (HashMap<_, _>, HashMap<_, _>) =
            starts.partition(|((topic, _), _)| config.is_replayed(topic));
        state.resume_at.extend(replayed);
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for partition in partitions {
            let start = state.resume_at.get(partition).or(of_group.get(partition)).copied();
            // Without one, what is committed counts.
            let offset = start.map_or(Offset::Invalid, Offset::Offset);
            list.add_partition_offset(&partition.0, partition.1, offset)?;
            if let Some(start) = start {
                state.batcher.start(&partition.0, partition.1, start);
            }
        }
        self.consumer.assign(&list)?;
        state.is_placed = true;
        Ok(())
    }

    fn deliver(&self, state: &mut FeedState) {
        let ready: Vec<String> = state.batcher.ready_topics().map(str::to_owned).collect();
        for topic in ready {
            let retry = state.retries.get(&topic);
            if retry.is_some_and(|retry| Instant::now() < retry.at) {
                continue;
            }
            if retry.is_some() {
                self.books.count_retry();
            }
            if self.deliver_topic(state, &topic) && state.retries.remove(&topic).is_some() {
                self.pause_or_resume(&topic, BaseConsumer::resume);
            }
        }
    }

    /// Whether nothing failed.
    fn deliver_topic(&self, state: &mut FeedState, topic: &str) -> bool {
        while let Some(delivery) = state.batcher.front(topic) {
            if self.is_stopping() {
                return true;
            }
            let Some(mut open) = self.gate.open(topic) else { return true };
            let applied = match &delivery {
                Delivery::Rows(rows) => self.sink.apply(topic, rows),
                Delivery::Dense(weights) => self.sink.apply_dense(topic, weights),
            };
            if let Err(error) = applied {
                let last = state.retries.get(topic).map(|retry| retry.wait);
                let wait = last.map_or(self.config.failure_backoff(), |wait| wait * 2);
                let wait = wait.min(RETRY_LONGEST);
                self.books.count_apply_error(topic, &error, wait.as_millis() as u64);
                state.retries.insert(topic.to_owned(), Retry { at: Instant::now() + wait, wait });
                self.pause_or_resume(topic, BaseConsumer::pause);
                return false;
            }
            self.books.count_applied(topic, &delivery);
            let applied = state.batcher.applied(topic);
            self.books.note_applied(topic, applied);
            open.note(topic, state.batcher.positions_of(topic));
        }
        true
    }

    fn pause_or_resume(
        &self,
        topic: &str,
        act: fn(&BaseConsumer<FeedContext>, &TopicPartitionList) -> KafkaResult<()>,
    ) {
        let done = self.consumer.assignment().and_then(|assignment| {
            let mut list = TopicPartitionList::new();
            for element in assignment.elements_for_topic(topic) {
                list.add_partition(topic, element.partition());
            }
            act(&self.consumer, &list)
        });
        if let Err(error) = done {
            self.books.note_client_error(format!("topic {topic}: {error}"));
        }
    }

    fn commit(&mut self, state: &mut FeedState) {
        match self.committer.result() {
            Some(Ok(())) => self.books.count_commit(),
            Some(Err(error)) => {
                self.books.count_commit_error(&error.to_string());
                state.batcher.commit_again();
            }
            None => {}
        }
        if self.config.commits_alone() && self.commit_again_at <= Instant::now() {
            self.commit_again_at += COMMIT_AGAIN_AFTER;
            state.batcher.commit_again();
        }
        if self.config.start == StartAt::Committed && self.committer.is_free() {
            let offsets = state.batcher.take_commit();
            if let Some(offsets) = offset_list(&offsets) {
                self.committer.commit(offsets);
            }
        }
    }

    /// What is buffered is left for the next start. What is applied is committed: in a group when
    /// the partitions are revoked, which is part of closing.
    fn close(self) {
        let ConsumerLoop { config, consumer, mut committer, sink, books, .. } = self;
        // From here on nothing is applied, whatever the client still does.
        drop(sink);
        {
            let mut state = consumer.context().lock();
            state.is_closing = true;
            let offsets =
                if config.commits_alone() { state.batcher.take_all() } else { Vec::new() };
            if let Some(offsets) = offset_list(&offsets) {
                committer.commit(offsets);
            }
            if state.unplaced.take().is_some()
                && let Err(error) = consumer.unassign()
            {
                books.note_client_error(format!("partitions cannot be given up: {error}"));
            }
        }
        drop(consumer);
        if !committer.close(CLOSE_TIMEOUT) {
            tracing::info!("kafka: no broker answers; the client closes in the background");
        }
    }
}

/// To none at all where no pattern is left.
fn subscribe(consumer: &BaseConsumer<FeedContext>, patterns: &[String]) -> KafkaResult<()> {
    if patterns.is_empty() {
        consumer.unsubscribe();
        return Ok(());
    }
    consumer.subscribe(&patterns.iter().map(String::as_str).collect::<Vec<_>>())
}

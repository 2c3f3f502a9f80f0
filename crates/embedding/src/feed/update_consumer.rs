//! Reads updates from Kafka and gives them to a sink, on a thread of its own.
//!
//! At least once: an offset is committed only after the sink has taken everything before it. In
//! each partition the order of messages is kept, and of the values of one key in a delivery only
//! the last is delivered. A message that is no update is counted, logged and passed over.
//!
//! A broker that is down is waited for, at the start and later, and the counters say so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::consumer_books::ConsumerBooks;
use super::consumer_config::UpdateConsumerConfig;
use super::consumer_counters::ConsumerCounters;
use super::consumer_loop::ConsumerLoop;
use super::consumer_watch::ConsumerWatch;
use super::feed_error::FeedError;
use super::topic_gate::TopicGate;
use super::topic_queue::Offsets;
use super::update_sink::UpdateSink;

pub struct UpdateConsumer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    books: Arc<ConsumerBooks>,
    gate: Arc<TopicGate>,
}

impl UpdateConsumer {
    /// An error is one of the configuration: no broker needs to answer.
    pub fn start(
        config: UpdateConsumerConfig,
        sink: Arc<dyn UpdateSink>,
    ) -> Result<Self, FeedError> {
        let books = Arc::new(ConsumerBooks::default());
        let stop = Arc::new(AtomicBool::new(false));
        let gate = Arc::new(TopicGate::default());
        let work = ConsumerLoop::new(
            config,
            sink,
            Arc::clone(&books),
            Arc::clone(&gate),
            Arc::clone(&stop),
        )?;
        let thread = std::thread::Builder::new().name("kafka-updates".into());
        let thread = thread.spawn(move || work.run());
        let thread = thread.map_err(|error| FeedError::Thread(error.to_string()))?;
        Ok(UpdateConsumer { stop, thread: Some(thread), books, gate })
    }

    pub fn counters(&self) -> ConsumerCounters {
        let is_running = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        ConsumerCounters { is_running, ..self.books.counters() }
    }

    /// For whoever must not keep it from ending.
    pub(crate) fn watch(&self) -> ConsumerWatch {
        ConsumerWatch::new(&self.books)
    }

    /// Reads a topic no more, and the others on. When it returns nothing of it is being applied.
    /// What was not applied is left for whoever reads it next; says up to where that is, as far as
    /// anything was applied here.
    pub fn end_topic(&self, topic: &str) -> Offsets {
        self.gate.end(topic)
    }

    /// Ends the thread within about a second, or as soon as the sink returns. What the sink has
    /// taken is committed, what is only buffered is left for the next start.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of a kafka consumer has panicked");
        }
    }
}

impl Drop for UpdateConsumer {
    fn drop(&mut self) {
        self.stop();
    }
}

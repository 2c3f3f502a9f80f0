//! The partitions of topics that a consumer reads whole, without a group that gives them out.
//!
//! Brokers are asked from time to time: a topic need not be there yet, and may get more partitions.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;

use super::consumer_context::FeedContext;
use super::topic_gate::TopicGate;

pub struct WholeTopics {
    names: BTreeSet<String>,
    interval: Duration,
    ask_at: Instant,
    /// `None` before a broker has answered.
    known: Option<BTreeSet<(String, i32)>>,
    /// Topics that were over when it last looked.
    ended: usize,
}

/// After brokers that did not answer.
const RETRY_AFTER: Duration = Duration::from_millis(500);

impl WholeTopics {
    pub fn new(names: impl IntoIterator<Item = String>, interval: Duration) -> Self {
        let names = names.into_iter().collect();
        WholeTopics { names, interval, ask_at: Instant::now(), known: None, ended: 0 }
    }

    /// All partitions that are to be read, where they are not those of the last time.
    pub fn changed(
        &mut self,
        consumer: &BaseConsumer<FeedContext>,
        gate: &TopicGate,
        timeout: Duration,
    ) -> KafkaResult<Option<Vec<(String, i32)>>> {
        let (ended, now) = (gate.ended(), Instant::now());
        if self.ask_at > now && ended == self.ended {
            return Ok(None);
        }
        let mut found = self.known.clone().unwrap_or_default();
        if self.ask_at <= now {
            self.ask_at = now + RETRY_AFTER;
            found.extend(self.ask(consumer, timeout)?);
            self.ask_at = now + self.interval;
        } else if self.known.is_none() {
            return Ok(None);
        }
        found.retain(|(topic, _)| !gate.is_ended(topic));
        self.ended = ended;
        if self.known.as_ref() == Some(&found) {
            return Ok(None);
        }
        self.known = Some(found.clone());
        Ok(Some(found.into_iter().collect()))
    }

    /// All topics at once: whoever asks for one by its name may make it.
    fn ask(
        &self,
        consumer: &BaseConsumer<FeedContext>,
        timeout: Duration,
    ) -> KafkaResult<BTreeSet<(String, i32)>> {
        let metadata = consumer.fetch_metadata(None, timeout)?;
        let topics = metadata.topics().iter().filter(|topic| self.names.contains(topic.name()));
        let partitions = topics.flat_map(|topic| {
            topic.partitions().iter().map(|partition| (topic.name().to_owned(), partition.id()))
        });
        Ok(partitions.collect())
    }
}

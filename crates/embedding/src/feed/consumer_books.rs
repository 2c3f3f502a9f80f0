//! The counters of a consumer, written by its thread and read by others.
//!
//! Of what would fill a log, only the first, the second, the fourth and so on are logged.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use terrace_tiers::TierError;

use super::consumer_counters::{ConsumerCounters, TopicLag};
use super::delivery::{Applied, Delivery};
use super::drop_reason::DropReason;

#[derive(Default)]
pub struct ConsumerBooks {
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    counters: ConsumerCounters,
    topics: BTreeMap<String, TopicBooks>,
    client_errors: u64,
    at_end_since: Option<Instant>,
    applied_until: Option<Instant>,
}

#[derive(Default)]
struct TopicBooks {
    lag_messages: u64,
    applied_timestamp_ms: Option<i64>,
}

impl ConsumerBooks {
    pub fn counters(&self) -> ConsumerCounters {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now_ms.map_or(0, |since| since.as_millis() as i64);
        let books = self.lock();
        let age_ms = |published_ms: i64| now_ms.saturating_sub(published_ms).max(0) as u64;
        let topics = books.topics.iter().map(|(topic, lag)| TopicLag {
            topic: topic.clone(),
            messages: lag.lag_messages,
            age_ms: lag.applied_timestamp_ms.map(age_ms),
        });
        ConsumerCounters {
            topics: topics.collect(),
            at_end_for: books.at_end_since.map(|since| since.elapsed()),
            applied_until: books.applied_until,
            ..books.counters.clone()
        }
    }

    pub fn count_message(&self) {
        let mut books = self.lock();
        books.counters.messages += 1;
        // What was known of the ends is from before.
        books.at_end_since = None;
    }

    pub fn count_beacon(&self) {
        self.lock().counters.beacons += 1;
    }

    pub fn count_dropped(&self, topic: &str, reason: DropReason, what: &str) {
        let count = increment(&mut self.lock().counters.dropped[reason as usize]);
        if count.is_power_of_two() {
            let name = reason.name();
            tracing::warn!(
                "kafka topic {topic}: a message is dropped: {what} ({name}, {count} so far)"
            );
        }
    }

    pub fn count_applied(&self, topic: &str, delivery: &Delivery<'_>) {
        let mut books = self.lock();
        match delivery {
            Delivery::Rows(rows) => books.counters.rows += rows.keys.len() as u64,
            Delivery::Dense(weights) => {
                books.counters.dense_versions += 1;
                let version = weights.version;
                tracing::info!("kafka topic {topic}: dense weights of version {version}");
            }
        }
    }

    pub fn note_applied(&self, topic: &str, applied: Applied) {
        if applied.timestamp_ms.is_some() {
            self.lock().topic(topic).applied_timestamp_ms = applied.timestamp_ms;
        }
    }

    pub fn count_apply_error(&self, topic: &str, error: &TierError, wait_ms: u64) {
        let count = increment(&mut self.lock().counters.apply_errors);
        if count.is_power_of_two() {
            tracing::warn!(
                "kafka topic {topic}: updates cannot be applied, the next try is in {wait_ms} ms: \
                 {error} ({count} such errors so far)"
            );
        }
    }

    pub fn count_retry(&self) {
        self.lock().counters.retries += 1;
    }

    pub fn count_commit(&self) {
        self.lock().counters.commits += 1;
    }

    pub fn count_commit_error(&self, error: &str) {
        let count = increment(&mut self.lock().counters.commit_errors);
        if count.is_power_of_two() {
            tracing::warn!(
                "kafka: offsets are not committed, which is tried again: {error} ({count} such \
                 errors so far)"
            );
        }
    }

    /// Messages that topics are behind by, whether all that is published is applied, and up to when
    /// it is where there is news of that.
    pub fn set_lags(
        &self,
        lags: impl IntoIterator<Item = (String, u64)>,
        is_at_end: bool,
        applied_until: Option<Instant>,
    ) {
        let mut books = self.lock();
        books.applied_until = applied_until.or(books.applied_until);
        books.at_end_since = match (is_at_end, books.at_end_since) {
            (true, Some(since)) => Some(since),
            (true, None) => Some(Instant::now()),
            (false, _) => None,
        };
        for lag in books.topics.values_mut() {
            lag.lag_messages = 0;
        }
        for (topic, messages) in lags {
            books.topic(&topic).lag_messages = messages;
        }
    }

    pub fn set_connected(&self, is_connected: bool) {
        let mut books = self.lock();
        let was_connected = std::mem::replace(&mut books.counters.is_connected, is_connected);
        let reason = books.counters.last_error.clone().unwrap_or_default();
        drop(books);
        match (was_connected, is_connected) {
            (false, true) => tracing::info!("kafka: a broker answers"),
            (true, false) => tracing::warn!("kafka: no broker answers any more: {reason}"),
            _ => {}
        }
    }

    pub fn note_client_error(&self, error: String) {
        let mut books = self.lock();
        let count = increment(&mut books.client_errors);
        if count.is_power_of_two() {
            tracing::warn!("kafka: {error} ({count} errors of its client so far)");
        }
        books.counters.last_error = Some(error);
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn topic(&mut self, topic: &str) -> &mut TopicBooks {
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.to_owned(), TopicBooks::default());
        }
        self.topics.get_mut(topic).expect("inserted above")
    }
}

fn increment(count: &mut u64) -> u64 {
    *count += 1;
    *count
}

//! Commits offsets, and closes the client in the end, on a thread of its own: either may wait for a
//! broker for as long as a group waits for its members, and nobody else should.
//!
//! At most one commit is under way. One that fails may be tried again after a while.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaResult;

use super::consumer_context::FeedContext;

pub struct Committer {
    /// `None` once it is to close.
    commits: Option<Sender<TopicPartitionList>>,
    results: Receiver<KafkaResult<()>>,
    is_under_way: bool,
    not_before: Instant,
    backoff: Duration,
}

impl Committer {
    pub fn start(
        consumer: Arc<BaseConsumer<FeedContext>>,
        backoff: Duration,
    ) -> std::io::Result<Self> {
        let (commits, work) = mpsc::channel::<TopicPartitionList>();
        let (done, results) = mpsc::channel();
        let thread = std::thread::Builder::new().name("kafka-commits".into());
        thread.spawn(move || {
            // The client's own way of committing in the background reports no result.
            for offsets in work {
                let result = consumer.commit(&offsets, CommitMode::Sync);
                if done.send(result).is_err() {
                    break;
                }
            }
            // Whoever drops the client last closes it.
            drop(consumer);
        })?;
        let not_before = Instant::now();
        let commits = Some(commits);
        Ok(Committer { commits, results, is_under_way: false, not_before, backoff })
    }

    pub fn is_free(&self) -> bool {
        !self.is_under_way && Instant::now() >= self.not_before
    }

    pub fn commit(&mut self, offsets: TopicPartitionList) {
        let commits = self.commits.as_ref().expect("it is not closing yet");
        // Its thread lives for as long as it can be sent something.
        self.is_under_way = commits.send(offsets).is_ok();
    }

    /// How the commit went that was under way, once.
    pub fn result(&mut self) -> Option<KafkaResult<()>> {
        let result = self.results.try_recv().ok()?;
        self.is_under_way = false;
        if result.is_err() {
            self.not_before = Instant::now() + self.backoff;
        }
        Some(result)
    }

    /// Closes the client, if nobody else has it; whether that is done in time. It goes on in any
    /// case.
    pub fn close(mut self, timeout: Duration) -> bool {
        let ends_at = Instant::now() + timeout;
        self.commits = None;
        loop {
            match self.results.recv_timeout(ends_at.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}

//! Threads that read from stores which may hang, so that whoever waits need not.
//!
//! A store's call cannot be taken back: it goes on after its time is over, and what it gives then
//! is dropped. So many calls at most are under way or waiting; more fail at once.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use terrace_tiers::TierError;

use crate::row_store::RowStore;

/// Ends its threads when it is dropped and they have nothing to do any more.
pub struct ReadThreads {
    jobs: SyncSender<Job>,
}

struct Job {
    store: Arc<dyn RowStore>,
    keys: Vec<i64>,
    dim: usize,
    reply: Sender<Rows>,
}

struct Rows {
    rows: Vec<f32>,
    found: Vec<bool>,
    result: Result<(), TierError>,
}

/// Calls that wait for a thread, for each thread.
const WAITING: usize = 4;

impl ReadThreads {
    pub fn start(threads: usize) -> std::io::Result<Self> {
        let threads = threads.max(1);
        let (jobs, waiting) = mpsc::sync_channel(threads * WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..threads {
            let waiting = Arc::clone(&waiting);
            let thread = std::thread::Builder::new().name(format!("row-read-{number}"));
            thread.spawn(move || work(&waiting))?;
        }
        Ok(ReadThreads { jobs })
    }

    /// As [`RowStore::get_many`], within a time.
    pub fn get_many(
        &self,
        store: &Arc<dyn RowStore>,
        keys: &[i64],
        rows: &mut [f32],
        found: &mut [bool],
        time: Duration,
    ) -> Result<(), TierError> {
        let wanted: Vec<usize> = (0..keys.len()).filter(|index| !found[*index]).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let dim = rows.len() / keys.len();
        let (reply, answer) = mpsc::channel();
        let job = Job {
            store: Arc::clone(store),
            keys: wanted.iter().map(|index| keys[*index]).collect(),
            dim,
            reply,
        };
        let name = store.name();
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => TierError::Unavailable(format!(
                "{name}: so many reads are under way that no more can wait; check its disk"
            )),
            TrySendError::Disconnected(_) => {
                TierError::Unavailable(format!("{name}: the threads that read from it have ended"))
            }
        })?;
        let read = answer.recv_timeout(time).map_err(|error| match error {
            RecvTimeoutError::Timeout => TierError::TimedOut(format!(
                "{name}: no answer within {} ms; check its disk, or give it more time",
                time.as_millis()
            )),
            RecvTimeoutError::Disconnected => {
                TierError::Unavailable(format!("{name}: a thread that reads from it has ended"))
            }
        })?;
        for (at, index) in wanted.into_iter().enumerate().filter(|(at, _)| read.found[*at]) {
            rows[index * dim..][..dim].copy_from_slice(&read.rows[at * dim..][..dim]);
            found[index] = true;
        }
        read.result
    }
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    // Held while waiting: then there is nothing to do for the others.
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(Job { store, keys, dim, reply }) = next() {
        let (mut rows, mut found) = (vec![0.0; keys.len() * dim], vec![false; keys.len()]);
        let result = store.get_many(&keys, &mut rows, &mut found);
        // First, so that whoever has its answer may close the store.
        drop(store);
        // Whoever asked may have left.
        let _ = reply.send(Rows { rows, found, result });
    }
}

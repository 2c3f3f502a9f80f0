//! Threads that bring missing rows into hot caches while look-ups go on with defaults.
//!
//! So many fills at most wait; one more is left out, and the next look-up that misses asks again.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

use super::served_table::ServedTable;

/// Ends its threads when it is dropped and they have nothing to do any more.
pub struct FillThreads {
    fills: SyncSender<Fill>,
}

pub(super) struct Fill {
    pub(super) table: Arc<ServedTable>,
    /// Which of the table's.
    pub(super) cache: usize,
    pub(super) keys: Vec<i64>,
}

/// Fills that wait for a thread, for each thread.
const WAITING: usize = 64;

impl FillThreads {
    pub fn start(threads: usize) -> std::io::Result<Self> {
        let threads = threads.max(1);
        let (fills, waiting) = mpsc::sync_channel(threads * WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..threads {
            let waiting = Arc::clone(&waiting);
            let thread = std::thread::Builder::new().name(format!("row-fill-{number}"));
            thread.spawn(move || work(&waiting))?;
        }
        Ok(FillThreads { fills })
    }

    /// Or gives it back, where too many are waiting.
    pub(super) fn submit(&self, fill: Fill) -> Result<(), Fill> {
        self.fills.try_send(fill).map_err(|error| match error {
            mpsc::TrySendError::Full(fill) | mpsc::TrySendError::Disconnected(fill) => fill,
        })
    }
}

fn work(waiting: &Mutex<Receiver<Fill>>) {
    // Held while waiting: then there is nothing to do for the others.
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(Fill { table, cache, keys }) = next() {
        if let Err(error) = table.fetch_into(cache, &keys) {
            let table = table.spec().tag.as_str();
            tracing::warn!("rows of {table} did not come into its hot cache: {error}");
        }
        table.caches()[cache].release(&keys);
    }
}

//! Threads that bring missing rows into hot caches while look-ups go on with defaults.
//!
//! So many fills at most wait; one more is left out, and the next look-up that misses asks again.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

/// Ends its threads when it is dropped and they have nothing to do any more.
pub struct FillThreads {
    fills: SyncSender<Fill>,
}

pub(super) type Fill = Box<dyn FnOnce() + Send>;

/// Too many fills are waiting.
pub(super) struct FillsFull;

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

    pub(super) fn submit(&self, fill: Fill) -> Result<(), FillsFull> {
        self.fills.try_send(fill).map_err(|_| FillsFull)
    }
}

fn work(waiting: &Mutex<Receiver<Fill>>) {
    // Held while waiting: then there is nothing to do for the others.
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(fill) = next() {
        fill();
    }
}

//! Threads that bring missing rows into hot caches while look-ups go on with defaults.
//!
//! So many fills at most wait; one more is left out, and the next look-up that misses asks again.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Ends its threads when it is dropped and they have nothing to do any more.
pub struct FillThreads {
    fills: SyncSender<Fill>,
    /// Fills that wait or are under way.
    pending: Arc<Pending>,
}

#[derive(Default)]
struct Pending {
    count: Mutex<usize>,
    changed: Condvar,
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
        let pending = Arc::new(Pending::default());
        for number in 0..threads {
            let (waiting, pending) = (Arc::clone(&waiting), Arc::clone(&pending));
            let thread = std::thread::Builder::new().name(format!("row-fill-{number}"));
            thread.spawn(move || work(&waiting, &pending))?;
        }
        Ok(FillThreads { fills, pending })
    }

    pub(super) fn submit(&self, fill: Fill) -> Result<(), FillsFull> {
        self.pending.add(1);
        self.fills.try_send(fill).map_err(|_| {
            self.pending.add(-1);
            FillsFull
        })
    }

    /// Waits until none is waiting or under way, at most so long.
    pub fn drain(&self, longest: Duration) {
        let count = self.pending.count.lock().unwrap_or_else(PoisonError::into_inner);
        let drained = self.pending.changed.wait_timeout_while(count, longest, |count| *count > 0);
        drop(drained);
    }
}

impl Pending {
    fn add(&self, change: isize) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.checked_add_signed(change).expect("each fill ends once");
        self.changed.notify_all();
    }
}

fn work(waiting: &Mutex<Receiver<Fill>>, pending: &Pending) {
    // Held while waiting: then there is nothing to do for the others.
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(fill) = next() {
        fill();
        pending.add(-1);
    }
}

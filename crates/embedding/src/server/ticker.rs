//! A thread that does something again and again until it is dropped.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ends its thread when it is dropped, after what it is doing.
pub struct Ticker {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

/// What comes next.
pub enum Tick {
    After(Duration),
    Never,
}

/// Known to whatever takes long.
#[derive(Clone, Default)]
pub struct Stop {
    shared: Arc<(Mutex<bool>, Condvar)>,
}

impl Ticker {
    pub fn start(
        name: &str,
        mut work: impl FnMut(&Stop) -> Tick + Send + 'static,
    ) -> std::io::Result<Self> {
        let stop = Stop::default();
        let of_thread = stop.clone();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || {
            while let Tick::After(wait) = work(&of_thread) {
                if of_thread.wait(wait) {
                    return;
                }
            }
        })?;
        Ok(Ticker { stop, thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        *self.stop.shared.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.shared.1.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a thread of the parameter server has panicked");
        }
    }
}

impl Stop {
    /// Whether it is over; waits so long for that.
    pub fn wait(&self, time: Duration) -> bool {
        let is_over = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.shared.1.wait_timeout_while(is_over, time, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub fn is_over(&self) -> bool {
        self.wait(Duration::ZERO)
    }
}

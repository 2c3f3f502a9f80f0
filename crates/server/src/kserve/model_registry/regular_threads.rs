//! Work at the server's own priority, for who runs at a lower one.
//!
//! A thread begins with the priority of the one that starts it, and a process may not raise it
//! again. So a thread that has never lowered its own starts them.

use std::io;
use std::sync::mpsc::{self, Sender};
use std::thread;

type Work = Box<dyn FnOnce() + Send>;

/// Clones reach the same thread; it ends with the last.
#[derive(Clone)]
pub struct RegularThreads {
    starter: Sender<Work>,
}

impl RegularThreads {
    pub fn start() -> io::Result<Self> {
        let (starter, works) = mpsc::channel::<Work>();
        let body = move || {
            for work in works {
                let thread = thread::Builder::new().name("terrace-load".to_owned());
                if let Err(error) = thread.spawn(work) {
                    // Who waits for it sees that it was dropped.
                    tracing::error!("a thread cannot be started: {error}");
                }
            }
        };
        thread::Builder::new().name("terrace-starter".to_owned()).spawn(body)?;
        Ok(Self { starter })
    }

    /// Has it done on a thread of its own, and waits for it. What it starts has its priority.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let (done, result) = mpsc::sync_channel(1);
        let work: Work = Box::new(move || {
            // Whoever asked may have gone.
            let _ = done.send(work());
        });
        let failed = || "work for a model has failed; the server's log says why".to_owned();
        self.starter.send(work).map_err(|_| failed())?;
        result.recv().map_err(|_| failed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_and_a_panic_is_reported() {
        let threads = RegularThreads::start().expect("a thread");
        assert_eq!(threads.run(|| 7), Ok(7));
        assert!(threads.run(|| panic!("on purpose")).is_err());
        assert_eq!(threads.run(|| "again"), Ok("again"));
    }
}

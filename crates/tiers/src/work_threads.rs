//! Threads that work beside an engine, and where they report what they have done.
//!
//! They end after the work that they have, once nobody can send them more: who has their queues
//! drops these first.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use crate::{Wait, Wake};

pub(crate) struct WorkThreads<D> {
    results: Receiver<D>,
    wake: Arc<OnceLock<Wake>>,
    threads: Vec<JoinHandle<()>>,
}

/// A thread's side.
pub(crate) struct WorkReports<D> {
    results: Sender<D>,
    wake: Arc<OnceLock<Wake>>,
}

impl<D> WorkThreads<D> {
    pub(crate) fn new() -> (Self, WorkReports<D>) {
        let (results_in, results) = mpsc::channel();
        let wake = Arc::new(OnceLock::new());
        let reports = WorkReports { results: results_in, wake: Arc::clone(&wake) };
        (WorkThreads { results, wake, threads: Vec::new() }, reports)
    }

    pub(crate) fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(work)?;
        self.threads.push(thread);
        Ok(())
    }

    /// What was done since the last call; with [`Wait::ForOne`] some is under way.
    pub(crate) fn done(&self, wait: Wait) -> Vec<D> {
        let mut done = Vec::new();
        if wait == Wait::ForOne {
            done.push(self.results.recv().expect("a thread that has work lives"));
        }
        done.extend(self.results.try_iter());
        done
    }

    /// From now on `wake` is called when work is done.
    pub(crate) fn wake_by(&self, wake: Wake) {
        assert!(self.wake.set(wake).is_ok(), "one engine waits for them");
    }
}

impl<D> WorkReports<D> {
    pub(crate) fn report(&self, done: D) {
        // An engine that has ended waits for nothing.
        let _ = self.results.send(done);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }
}

impl<D> Clone for WorkReports<D> {
    fn clone(&self) -> Self {
        WorkReports { results: self.results.clone(), wake: Arc::clone(&self.wake) }
    }
}

impl<D> Drop for WorkThreads<D> {
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            // A panic was logged where it happened.
            let _ = thread.join();
        }
    }
}

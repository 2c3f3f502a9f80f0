//! Requests of a model that wait for one of its instances.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::batch_policy::{BatchPolicy, Decision};
use super::predict_error::PredictError;
use super::prediction::Prediction;
use super::samples::Samples;

pub(super) struct BatchQueue {
    policy: BatchPolicy,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    is_closed: bool,
}

pub(super) struct Waiting {
    pub samples: Samples,
    pub since: Instant,
    pub timeout: Option<Duration>,
    pub reply: oneshot::Sender<Result<Prediction, PredictError>>,
}

impl BatchQueue {
    pub fn new(policy: BatchPolicy) -> Self {
        BatchQueue { policy, state: Mutex::default(), changed: Condvar::new() }
    }

    pub fn push(&self, waiting: Waiting) -> Result<(), PredictError> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(PredictError::Stopped);
        }
        let count = state.waiting.len();
        if count >= self.policy.max_waiting {
            return Err(PredictError::Busy { waiting: count });
        }
        state.waiting.push_back(waiting);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// The next batch: requests that still have somebody waiting for them, in time. `None`: the
    /// queue is closed and empty.
    pub fn next(&self) -> Option<Vec<Waiting>> {
        let mut state = self.lock();
        loop {
            state.drop_late();
            let Some(first) = state.waiting.front() else {
                if state.is_closed {
                    return None;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let age = first.since.elapsed();
            let sizes = state.waiting.iter().map(|waiting| waiting.samples.count);
            match self.policy.decide(sizes, age) {
                Decision::Wait(_) if state.is_closed => {
                    return Some(state.waiting.drain(..1).collect());
                }
                Decision::Wait(longest) => {
                    let (next, _) = self
                        .changed
                        .wait_timeout(state, longest)
                        .unwrap_or_else(PoisonError::into_inner);
                    state = next;
                }
                Decision::Run(count) => {
                    let batch = state.waiting.drain(..count).collect();
                    if !state.waiting.is_empty() {
                        self.changed.notify_one();
                    }
                    return Some(batch);
                }
            }
        }
    }

    /// Takes no more requests; those that wait are computed.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Ends those that wait, for nobody is left to compute them.
    pub fn abandon(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.waiting.clear();
    }

    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Those whose clients have left, or whose time is over.
    fn drop_late(&mut self) {
        let is_over = |waiting: &Waiting| {
            let is_late = waiting.timeout.is_some_and(|timeout| waiting.since.elapsed() > timeout);
            is_late || waiting.reply.is_closed()
        };
        if !self.waiting.iter().any(is_over) {
            return;
        }
        let (over, left) = std::mem::take(&mut self.waiting).into_iter().partition(is_over);
        self.waiting = left;
        for Waiting { timeout, reply, .. } in Vec::from(over) {
            let timeout_ms = timeout.map_or(0, |timeout| timeout.as_millis() as u64);
            // Who has asked may have left.
            let _ = reply.send(Err(PredictError::Late { timeout_ms }));
        }
    }
}

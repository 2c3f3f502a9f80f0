//! Looks the rows of hot caches up again from time to time, on a thread of its own.
//!
//! A cache is walked in steps of some of its sets, so that no step holds the levels for long. A
//! table that nobody serves any more ends, and is walked no more.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::lookup::ServedTable;

/// Ends its thread when it is dropped, after the step that it is at.
pub struct CacheRefresh {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Of the hot caches of one table, which it does not keep from ending once the refresh has begun.
pub struct RefreshPlan {
    pub table: Arc<ServedTable>,
    /// The first time after so long; `None`: after the interval.
    pub delay: Option<Duration>,
    /// Then each time after so long; `None`: once, or only on request.
    pub interval: Option<Duration>,
    /// Of a cache's sets, walked in one step.
    pub share: f64,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_over: bool,
    /// All caches are due, whatever their plans say.
    is_requested: bool,
    walks: u64,
}

impl CacheRefresh {
    pub fn start(plans: Vec<RefreshPlan>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let begun = Instant::now();
        let first = |plan: &RefreshPlan| plan.delay.or(plan.interval).map(|wait| begun + wait);
        let due: Vec<Option<Instant>> = plans.iter().map(first).collect();
        let plans: Vec<Walk> = plans.into_iter().map(Walk::new).collect();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("cache-refresh".into());
        let thread = thread.spawn(move || of_thread.run(&plans, due))?;
        Ok(CacheRefresh { shared, thread: Some(thread) })
    }

    /// Has all caches walked soon: levels have come back, or updates have caught up.
    pub fn request(&self) {
        self.shared.lock().is_requested = true;
        self.shared.changed.notify_all();
    }

    /// Tables whose caches were walked whole, since the start.
    pub fn walks(&self) -> u64 {
        self.shared.lock().walks
    }
}

/// What is walked, and how.
struct Walk {
    table: Weak<ServedTable>,
    interval: Option<Duration>,
    share: f64,
}

impl Walk {
    fn new(plan: RefreshPlan) -> Self {
        let RefreshPlan { table, interval, share, .. } = plan;
        Walk { table: Arc::downgrade(&table), interval, share }
    }
}

impl Drop for CacheRefresh {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that refreshes hot caches has panicked");
        }
    }
}

impl Shared {
    fn run(&self, plans: &[Walk], mut due: Vec<Option<Instant>>) {
        loop {
            let is_requested = {
                let mut state = self.lock();
                if state.is_over {
                    return;
                }
                std::mem::take(&mut state.is_requested)
            };
            for (plan, due) in plans.iter().zip(&mut due) {
                let is_due = due.is_some_and(|due| due <= Instant::now());
                if !is_due && !is_requested {
                    continue;
                }
                let Some(table) = plan.table.upgrade() else {
                    *due = None;
                    continue;
                };
                let caches = table.caches().len();
                drop(table);
                if !self.walk(plan, caches) {
                    return;
                }
                if is_due {
                    *due = plan.interval.map(|interval| Instant::now() + interval);
                }
                self.lock().walks += 1;
            }
            self.wait(due.iter().flatten().min().copied());
        }
    }

    /// Whether it was not interrupted.
    fn walk(&self, plan: &Walk, caches: usize) -> bool {
        for number in 0..caches {
            let mut start = 0;
            loop {
                if self.lock().is_over {
                    return false;
                }
                // Held for one step at a time.
                let Some(table) = plan.table.upgrade() else { return true };
                let sets = table.caches()[number].cache().sets();
                let step = (f64::from(sets) * plan.share).ceil().clamp(1.0, f64::from(sets)) as u32;
                let end = sets.min(start + step);
                if let Err(error) = table.refresh(number, start..end) {
                    let table = table.spec().tag.as_str();
                    tracing::warn!("a hot cache of {table} was not refreshed: {error}");
                    break;
                }
                if end == sets {
                    break;
                }
                start = end;
            }
        }
        true
    }

    /// Until something is due, requested or over.
    fn wait(&self, until: Option<Instant>) {
        let mut state = self.lock();
        while !state.is_over && !state.is_requested {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            state = match left {
                Some(left) if left.is_zero() => return,
                Some(left) => {
                    let (state, _) = self
                        .changed
                        .wait_timeout(state, left)
                        .unwrap_or_else(PoisonError::into_inner);
                    state
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

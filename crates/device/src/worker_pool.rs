//! Threads that share the tasks of one op.
//!
//! Every thread, the calling one included, has a stretch of a run's tasks that it claims first, a
//! few at a time, then it helps the others with theirs. So threads seldom touch the same counter,
//! and a slow or preempted worker costs little. Idle workers spin for a moment, because the next op
//! usually follows within microseconds, and then sleep.
//!
//! Not a job queue: one run at a time, and a task may not start a run.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};

use crate::error::Error;

/// Pauses before an idle thread sleeps: 20 to 60 µs, depending on how long the CPU's pause is.
const SPINS: usize = 1000;

/// What a run calls: `(worker, tasks)`, with `worker < threads`.
pub type Tasks<'a> = dyn Fn(usize, Range<usize>) + Sync + 'a;

pub struct WorkerPool {
    shared: Arc<Shared>,
    /// Held for the length of a run: callers take turns.
    turn: Mutex<()>,
    /// The thread whose turn it is, to refuse a run inside a run.
    caller: Mutex<Option<ThreadId>>,
    workers: Vec<JoinHandle<()>>,
}

impl WorkerPool {
    /// A pool of `threads`, the caller's own included.
    pub fn new(threads: usize) -> Result<Self, Error> {
        if threads == 0 || MAX_THREADS < threads {
            return Err(Error::ThreadCount { threads, most: MAX_THREADS });
        }
        let shared = Arc::new(Shared::new(threads));
        let mut pool = WorkerPool {
            shared,
            turn: Mutex::new(()),
            caller: Mutex::new(None),
            workers: Vec::with_capacity(threads - 1),
        };
        for worker in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let spawned = thread::Builder::new()
                .name(format!("terrace-worker-{worker}"))
                .spawn(move || shared.work(worker));
            pool.workers.push(spawned.map_err(|source| Error::Spawn { worker, source })?);
        }
        Ok(pool)
    }

    /// Threads that may run tasks, the caller's included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task(worker, i)` once for each `i < tasks` and returns when all have returned.
    ///
    /// A panic in a task is raised here, after the others have stopped. At any moment a worker
    /// index belongs to one thread. Panics when called from inside a task.
    pub fn run(&self, tasks: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        self.run_claims(tasks, &|worker, tasks| tasks.for_each(|i| task(worker, i)));
    }

    /// As [`run`](Self::run), with the tasks that a worker claims at once in one call, for those
    /// that have something to prepare.
    pub fn run_claims(&self, tasks: usize, work: &Tasks<'_>) {
        if tasks == 0 {
            return;
        }
        self.assert_not_nested();
        let _turn = lock(&self.turn);
        *lock(&self.caller) = Some(thread::current().id());
        let outcome = if self.workers.is_empty() || tasks == 1 {
            catch_unwind(AssertUnwindSafe(|| work(0, 0..tasks)))
        } else {
            self.shared.run(tasks, work)
        };
        *lock(&self.caller) = None;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    }

    fn assert_not_nested(&self) {
        let me = thread::current().id();
        let inside = *lock(&self.caller) == Some(me)
            || self.workers.iter().any(|worker| worker.thread().id() == me);
        assert!(!inside, "a task may not start a run on its own pool");
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.wake_sleepers();
        for worker in self.workers.drain(..) {
            worker.join().expect("a worker catches the panics of its tasks");
        }
    }
}

/// The gate's low bits count the workers inside the job, one bit says that the job is open, and
/// the rest number the jobs, so that a worker enters each at most once.
const OPEN: usize = 1 << 16;
const NEXT_JOB: usize = OPEN << 1;
const INSIDE: usize = OPEN - 1;
const MAX_THREADS: usize = 1024;

struct Shared {
    /// A worker enters through an open gate; the job may be replaced when none is inside.
    gate: AtomicUsize,
    job: Mutex<Option<Job>>,
    /// One for each thread.
    claims: Vec<Claims>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    stop: AtomicBool,
    sleepers: AtomicUsize,
    caller_sleeps: AtomicBool,
    sleep: Mutex<()>,
    work: Condvar,
    done: Condvar,
}

/// The first task of a thread's stretch that nobody has claimed. Apart from what other threads look
/// at.
#[derive(Default)]
#[repr(align(128))]
struct Claims {
    next: AtomicUsize,
}

/// Which part of what is left of a stretch one claim is.
const CLAIM_SHARE: usize = 4;

impl Claims {
    /// Some tasks of a stretch that ends at `end`.
    fn claim(&self, end: usize) -> Option<Range<usize>> {
        let left = end.checked_sub(self.next.load(Ordering::Relaxed)).filter(|&left| 0 < left)?;
        let count = left.div_ceil(CLAIM_SHARE);
        let start = self.next.fetch_add(count, Ordering::Relaxed);
        (start < end).then(|| start..end.min(start + count))
    }
}

#[derive(Clone, Copy)]
struct Job {
    tasks: usize,
    work: &'static Tasks<'static>,
}

impl Shared {
    fn new(threads: usize) -> Self {
        Shared {
            gate: AtomicUsize::new(0),
            job: Mutex::new(None),
            claims: (0..threads).map(|_| Claims::default()).collect(),
            panic: Mutex::new(None),
            stop: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            caller_sleeps: AtomicBool::new(false),
            sleep: Mutex::new(()),
            work: Condvar::new(),
            done: Condvar::new(),
        }
    }

    /// Where a thread's stretch of `tasks` begins, and that of the one before it ends.
    fn stretch_start(&self, tasks: usize, thread: usize) -> usize {
        tasks * thread / self.claims.len()
    }

    fn run(&self, tasks: usize, work: &Tasks<'_>) -> thread::Result<()> {
        // SAFETY: the job is only called by workers inside the gate, and this function does not
        // return before the gate is closed and all of them have left.
        let work = unsafe { std::mem::transmute::<&Tasks<'_>, &'static Tasks<'static>>(work) };
        let job = Job { tasks, work };
        *lock(&self.job) = Some(job);
        for (thread, claims) in self.claims.iter().enumerate() {
            claims.next.store(self.stretch_start(tasks, thread), Ordering::Relaxed);
        }
        let gate = self.gate.load(Ordering::Relaxed);
        self.gate.store(gate.wrapping_add(NEXT_JOB) | OPEN, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake_sleepers();
        }
        self.take_tasks(0, job);
        self.gate.fetch_and(!OPEN, Ordering::SeqCst);
        self.wait_until_left();
        match lock(&self.panic).take() {
            Some(panic) => Err(panic),
            None => Ok(()),
        }
    }

    /// Works on the own stretch, then on those behind it.
    fn take_tasks(&self, worker: usize, job: Job) {
        let run = || {
            let threads = self.claims.len();
            for thread in (worker..threads).chain(0..worker) {
                let end = self.stretch_start(job.tasks, thread + 1);
                while let Some(tasks) = self.claims[thread].claim(end) {
                    (job.work)(worker, tasks);
                }
            }
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            for claims in &self.claims {
                claims.next.store(job.tasks, Ordering::Relaxed);
            }
            lock(&self.panic).get_or_insert(panic);
        }
    }

    fn wait_until_left(&self) {
        let left = || self.gate.load(Ordering::SeqCst) & INSIDE == 0;
        if spin_until(left) {
            return;
        }
        let mut guard = lock(&self.sleep);
        // We say that we sleep and then look at the gate; a worker leaves and then looks whether
        // we do. One of the two sees the other.
        self.caller_sleeps.store(true, Ordering::SeqCst);
        while !left() {
            guard = self.done.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.caller_sleeps.store(false, Ordering::SeqCst);
    }

    /// Body of a worker thread.
    fn work(&self, worker: usize) {
        let mut last_job = 0;
        loop {
            self.wait_for_job(last_job);
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let Some(entered) = self.enter(last_job) else { continue };
            last_job = entered;
            let job = lock(&self.job).expect("an open gate has a job");
            self.take_tasks(worker, job);
            let before = self.gate.fetch_sub(1, Ordering::SeqCst);
            if before & INSIDE == 1 && self.caller_sleeps.load(Ordering::SeqCst) {
                drop(lock(&self.sleep));
                self.done.notify_all();
            }
        }
    }

    fn wait_for_job(&self, last_job: usize) {
        let ready = || self.stop.load(Ordering::SeqCst) || self.offered(last_job).is_some();
        if spin_until(ready) {
            return;
        }
        let mut guard = lock(&self.sleep);
        // The caller opens the gate and then looks for sleepers; we count ourselves and then look
        // at the gate. One of the two sees the other.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !ready() {
            guard = self.work.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// The gate, when it is open for a job other than `last_job`.
    fn offered(&self, last_job: usize) -> Option<usize> {
        let gate = self.gate.load(Ordering::SeqCst);
        (gate & OPEN != 0 && gate / NEXT_JOB != last_job).then_some(gate)
    }

    /// Goes through the gate and returns the number of the job behind it.
    fn enter(&self, last_job: usize) -> Option<usize> {
        let gate = self.offered(last_job)?;
        let entered =
            self.gate.compare_exchange(gate, gate + 1, Ordering::SeqCst, Ordering::SeqCst);
        entered.is_ok().then_some(gate / NEXT_JOB)
    }

    fn wake_sleepers(&self) {
        drop(lock(&self.sleep));
        self.work.notify_all();
    }
}

fn spin_until(ready: impl Fn() -> bool) -> bool {
    (0..SPINS).any(|_| {
        let is_ready = ready();
        if !is_ready {
            std::hint::spin_loop();
        }
        is_ready
    })
}

/// No code panics while it holds one of the pool's locks, so poison carries no news.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

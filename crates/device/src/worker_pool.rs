//! Threads that share the tasks of one op.
//!
//! Every thread, the calling one included, has a run of a run's tasks that it claims first, a
//! few at a time, then it helps the others with theirs. So threads seldom touch the same counter,
//! and a slow or preempted worker costs little. Idle workers spin for a moment, because the next op
//! usually follows within microseconds, and then sleep.
//!
//! Not a job queue: one run at a time, and a task may not start a run.

mod each_part;

use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::error::Error;

/// Pauses before an idle thread sleeps: 20 to 60 µs, depending on how long the CPU's pause is.
const SPINS: usize = 1000;

/// What a run calls once on each thread that takes part: `(worker, tasks)`, with
/// `worker < threads`.
pub type Work<'a> = dyn Fn(usize, Tasks<'_>) + Sync + 'a;

pub struct WorkerPool {
    shared: Arc<Shared>,
    /// Held for the length of a run: callers take turns.
    turn: Mutex<()>,
    /// The thread whose turn it is, or 0, to refuse a run inside a run.
    caller: AtomicUsize,
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
            caller: AtomicUsize::new(0),
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
        self.run_workers(tasks, &|worker, tasks| tasks.for_each(|i| task(worker, i)));
    }

    /// As [`run`](Self::run), with all the tasks that a worker gets in one call, for those that
    /// have something to prepare.
    pub fn run_workers(&self, tasks: usize, work: &Work<'_>) {
        if tasks == 0 {
            return;
        }
        let me = this_thread();
        // Only this thread writes its own number, so what another writes meanwhile does not matter.
        let inside = self.caller.load(Ordering::Relaxed) == me || self.shared.is_worker(me);
        assert!(!inside, "a task may not start a run on its own pool");
        let _turn = lock(&self.turn);
        self.caller.store(me, Ordering::Relaxed);
        let outcome = if self.workers.is_empty() || tasks == 1 {
            let tasks = Tasks { claimed: 0..tasks, others: None };
            catch_unwind(AssertUnwindSafe(|| work(0, tasks)))
        } else {
            self.shared.run(tasks, work)
        };
        self.caller.store(0, Ordering::Relaxed);
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    }
}

/// A number that no other thread has.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
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
    offer: Offer,
    /// One for each thread.
    claims: Vec<Claims>,
    /// The numbers of the workers' threads, when they have started.
    threads: Vec<AtomicUsize>,
    has_panicked: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    stop: AtomicBool,
    sleepers: AtomicUsize,
    caller_sleeps: AtomicBool,
    sleep: Mutex<()>,
    work: Condvar,
    done: Condvar,
}

/// What a worker looks at while it waits, in one cache line: where it sees that there is something
/// to do, it has it.
#[repr(align(128))]
struct Offer {
    /// A worker enters through an open gate; the job may be replaced when none is inside.
    gate: AtomicUsize,
    job: UnsafeCell<Option<Job>>,
}

// SAFETY: the job is written by the thread whose turn it is, while the gate is closed and nobody
// inside, and read by those inside.
unsafe impl Sync for Offer {}

/// The first task of a thread's run that nobody has claimed. Apart from what other threads look
/// at.
#[derive(Default)]
#[repr(align(128))]
struct Claims {
    next: AtomicUsize,
}

/// Which part of what is left of a run one claim is.
const CLAIM_SHARE: usize = 4;

impl Claims {
    /// Some tasks of a run that ends at `end`.
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
    work: &'static Work<'static>,
}

/// The tasks that a worker gets, until there are none left for anybody.
pub struct Tasks<'r> {
    claimed: Range<usize>,
    others: Option<Others<'r>>,
}

/// Those that are not claimed yet.
struct Others<'r> {
    shared: &'r Shared,
    tasks: usize,
    /// The run that the worker is at, and those behind it.
    run: usize,
    runs_left: usize,
}

impl Iterator for Tasks<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.claimed.is_empty() {
            self.claimed = self.others.as_mut()?.claim()?;
        }
        self.claimed.next()
    }
}

impl Others<'_> {
    /// Some of the own run, then of those behind it.
    fn claim(&mut self) -> Option<Range<usize>> {
        let runs = self.shared.claims.len();
        while 0 < self.runs_left {
            let end = self.shared.run_start(self.tasks, self.run + 1);
            if let Some(tasks) = self.shared.claims[self.run].claim(end) {
                return Some(tasks);
            }
            self.run = (self.run + 1) % runs;
            self.runs_left -= 1;
        }
        None
    }
}

impl Shared {
    fn new(threads: usize) -> Self {
        Shared {
            offer: Offer { gate: AtomicUsize::new(0), job: UnsafeCell::new(None) },
            claims: (0..threads).map(|_| Claims::default()).collect(),
            threads: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            has_panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
            stop: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            caller_sleeps: AtomicBool::new(false),
            sleep: Mutex::new(()),
            work: Condvar::new(),
            done: Condvar::new(),
        }
    }

    /// Where a thread's run of `tasks` begins, and that of the one before it ends.
    fn run_start(&self, tasks: usize, thread: usize) -> usize {
        tasks * thread / self.claims.len()
    }

    fn is_worker(&self, thread: usize) -> bool {
        self.threads.iter().any(|worker| worker.load(Ordering::Relaxed) == thread)
    }

    fn run(&self, tasks: usize, work: &Work<'_>) -> thread::Result<()> {
        // SAFETY: the job is only called by workers inside the gate, and this function does not
        // return before the gate is closed and all of them have left.
        let work = unsafe { std::mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
        let job = Job { tasks, work };
        // SAFETY: it is this thread's turn, the gate is closed and nobody inside.
        unsafe { *self.offer.job.get() = Some(job) };
        for (thread, claims) in self.claims.iter().enumerate() {
            claims.next.store(self.run_start(tasks, thread), Ordering::Relaxed);
        }
        let gate = self.offer.gate.load(Ordering::Relaxed);
        self.offer.gate.store(gate.wrapping_add(NEXT_JOB) | OPEN, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake_sleepers();
        }
        self.take_tasks(0, job);
        self.offer.gate.fetch_and(!OPEN, Ordering::SeqCst);
        self.wait_until_left();
        // Whoever panicked has left since, so what it wrote is seen here.
        if !self.has_panicked.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.has_panicked.store(false, Ordering::Relaxed);
        Err(lock(&self.panic).take().expect("a panic was kept"))
    }

    fn take_tasks(&self, worker: usize, job: Job) {
        let runs_left = self.claims.len();
        let mut others = Others { shared: self, tasks: job.tasks, run: worker, runs_left };
        let Some(claimed) = others.claim() else { return };
        let tasks = Tasks { claimed, others: Some(others) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (job.work)(worker, tasks))) {
            for claims in &self.claims {
                claims.next.store(job.tasks, Ordering::Relaxed);
            }
            lock(&self.panic).get_or_insert(panic);
            self.has_panicked.store(true, Ordering::Relaxed);
        }
    }

    fn wait_until_left(&self) {
        let left = || self.offer.gate.load(Ordering::SeqCst) & INSIDE == 0;
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
        self.threads[worker].store(this_thread(), Ordering::Relaxed);
        let mut last_job = 0;
        loop {
            self.wait_for_job(last_job);
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let Some(entered) = self.enter(last_job) else { continue };
            last_job = entered;
            // SAFETY: this worker is inside the gate.
            let job = unsafe { *self.offer.job.get() }.expect("an open gate has a job");
            self.take_tasks(worker, job);
            let before = self.offer.gate.fetch_sub(1, Ordering::SeqCst);
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
        let gate = self.offer.gate.load(Ordering::SeqCst);
        (gate & OPEN != 0 && gate / NEXT_JOB != last_job).then_some(gate)
    }

    /// Goes through the gate and returns the number of the job behind it.
    fn enter(&self, last_job: usize) -> Option<usize> {
        let gate = self.offered(last_job)?;
        let entered =
            self.offer.gate.compare_exchange(gate, gate + 1, Ordering::SeqCst, Ordering::SeqCst);
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

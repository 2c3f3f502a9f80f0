//! A thread that looks keys up all the time and checks what it gets: every row is whole, was
//! published, and is not older than what every level was seen to have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use terrace_embedding::{MissingRows, ParameterServer};
use terrace_testkit::Rng;

use crate::served::{DIM, table, version_of};

/// What is known of the keys `0..`.
pub struct KeyVersions {
    /// Sent at the latest.
    published: Vec<AtomicU32>,
    /// Seen on every level.
    settled: Vec<AtomicU32>,
    /// Rows may be missing: nothing has them at the moment.
    pub may_miss: AtomicBool,
    /// Rows that were replaced may come back for a while.
    pub may_be_old: AtomicBool,
}

pub struct RowWatch {
    is_over: Arc<AtomicBool>,
    looked_up: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// Of one look-up: a server has several seconds for each level, and this machine may be busy.
const HANGS_AFTER: Duration = Duration::from_secs(30);
const KEYS_AT_ONCE: usize = 25;

impl KeyVersions {
    pub fn new(keys: usize, version: u32) -> Arc<Self> {
        let all = || (0..keys).map(|_| AtomicU32::new(version)).collect();
        Arc::new(KeyVersions {
            published: all(),
            settled: all(),
            may_miss: AtomicBool::new(false),
            may_be_old: AtomicBool::new(false),
        })
    }

    pub fn keys(&self) -> Vec<i64> {
        (0..self.published.len() as i64).collect()
    }

    /// Before it is sent.
    pub fn publish(&self, keys: &[i64], version: u32) {
        keys.iter().for_each(|key| self.published[*key as usize].store(version, Ordering::SeqCst));
    }

    /// All that was published is everywhere.
    pub fn settle(&self) {
        for (settled, published) in self.settled.iter().zip(&self.published) {
            settled.store(published.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        self.may_miss.store(false, Ordering::SeqCst);
        self.may_be_old.store(false, Ordering::SeqCst);
    }

    fn check_look_up(&self, server: &ParameterServer, keys: &[i64]) {
        let before = keys.iter().map(|key| self.settled[*key as usize].load(Ordering::SeqCst));
        let before: Vec<u32> = before.collect();
        let flags = [&self.may_miss, &self.may_be_old];
        let allowed = flags.map(|flag| flag.load(Ordering::SeqCst));
        let (begun, mut rows) = (Instant::now(), vec![f32::NAN; keys.len() * DIM]);
        server
            .look_up(table(server), keys, MissingRows::AsConfigured, &mut rows)
            .expect("keys of 64 bits");
        let took = begun.elapsed();
        assert!(took < HANGS_AFTER, "a look-up took {took:?}");
        let [may_miss, may_be_old] =
            [0, 1].map(|at| allowed[at] || flags[at].load(Ordering::SeqCst));
        for ((key, row), settled) in keys.iter().zip(rows.chunks(DIM)).zip(before) {
            let published = self.published[*key as usize].load(Ordering::SeqCst);
            match version_of(*key, row) {
                None => assert!(may_miss, "key {key} is missing"),
                Some(version) => {
                    assert!(version <= published, "key {key}: {version} was never published");
                    let is_old = version < settled && !may_be_old;
                    assert!(!is_old, "key {key}: {version} after {settled} was everywhere");
                }
            }
        }
    }
}

impl RowWatch {
    pub fn start(server: &Arc<ParameterServer>, versions: &Arc<KeyVersions>, seed: u64) -> Self {
        let (is_over, looked_up) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let of_thread = (Arc::clone(server), Arc::clone(versions));
        let signs = (Arc::clone(&is_over), Arc::clone(&looked_up));
        let thread = std::thread::spawn(move || {
            let ((server, versions), (is_over, looked_up)) = (of_thread, signs);
            let mut random = Rng::new(seed);
            while !is_over.load(Ordering::SeqCst) {
                let keys = versions.published.len();
                let keys: Vec<i64> = (0..KEYS_AT_ONCE).map(|_| random.below(keys) as i64).collect();
                versions.check_look_up(&server, &keys);
                looked_up.fetch_add(1, Ordering::SeqCst);
                // The machine has other things to do.
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        RowWatch { is_over, looked_up, thread: Some(thread) }
    }

    /// Waits for so many look-ups from now on.
    pub fn wait_for_look_ups(&self, count: u64) {
        let until = self.looked_up.load(Ordering::SeqCst) + count;
        let goes_on = || self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        while self.looked_up.load(Ordering::SeqCst) < until && goes_on() {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(goes_on(), "a look-up was wrong");
    }

    /// Fails if a look-up did.
    pub fn stop(mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let ended = self.thread.take().expect("it runs").join();
        assert!(ended.is_ok(), "a look-up was wrong");
    }
}

impl Drop for RowWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

//! Threads that carry out the work of the lower tiers: pages of the store to records and back.
//!
//! Look-ups do not wait behind reads, nor reads behind writes, and while one read is checked and
//! copied the next one waits for its bytes. What a tier gives is checked before it counts as
//! arrived; a record that is damaged is a miss and is removed.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use terrace_cache::{PageKey, StorePageId, TierDone, TierTask, TierWork, WrittenPage};
use terrace_device::cuda::PinnedPages;

use crate::record::{self, RecordHeader};
use crate::tier_executor::{TierExecutor, Wake};
use crate::work_threads::{WorkReports, WorkThreads};
use crate::{GuardedTier, TierRecord, TierRetention, Wait};

pub struct TierThreads {
    /// Of each tier. They go before the threads.
    queues: Vec<TierQueues>,
    threads: WorkThreads<TierDone>,
}

/// Threads that read from a tier.
const READERS: usize = 3;

/// Work for one tier's threads.
struct TierQueues {
    look_ups: Sender<TierWork>,
    reads: Sender<TierWork>,
    writes: Sender<TierWork>,
}

/// What each thread has.
#[derive(Clone)]
struct Worker {
    tier: Arc<GuardedTier>,
    pages: Arc<PinnedPages>,
    model: [u8; 32],
    reports: WorkReports<TierDone>,
}

impl TierThreads {
    /// `tiers` are the levels below `pages`, the fastest first; `model` is the fingerprint of the
    /// model whose pages these are.
    pub fn start(
        tiers: &[Arc<GuardedTier>],
        pages: &Arc<PinnedPages>,
        model: [u8; 32],
    ) -> std::io::Result<Self> {
        let (threads, reports) = WorkThreads::new();
        let mut started = TierThreads { queues: Vec::new(), threads };
        for tier in tiers {
            let worker = Worker {
                tier: Arc::clone(tier),
                pages: Arc::clone(pages),
                model,
                reports: reports.clone(),
            };
            let of_tier = TierQueues {
                look_ups: started.spawn(&worker, "look-up", 1, Worker::run)?,
                reads: started.spawn(&worker, "read", READERS, Worker::run)?,
                writes: started.spawn(&worker, "write", 1, Worker::run_and_sync)?,
            };
            started.queues.push(of_tier);
        }
        Ok(started)
    }

    /// Threads that take work from one queue.
    fn spawn(
        &mut self,
        worker: &Worker,
        what: &str,
        count: usize,
        run: fn(&Worker, &Mutex<Receiver<TierWork>>),
    ) -> std::io::Result<Sender<TierWork>> {
        let (queue, work) = mpsc::channel();
        let work = Arc::new(Mutex::new(work));
        for _ in 0..count {
            let name = format!("{}-{what}", worker.tier.name());
            let (worker, work) = (worker.clone(), Arc::clone(&work));
            self.threads.spawn(&name, move || run(&worker, &work))?;
        }
        Ok(queue)
    }
}

impl TierExecutor for TierThreads {
    fn start(&mut self, work: TierWork) {
        let of_tier = &self.queues[work.tier.index()];
        let queue = match &work.task {
            TierTask::LookUp(_) => &of_tier.look_ups,
            TierTask::Read(_) => &of_tier.reads,
            TierTask::Write(_) | TierTask::RemovePrefix(_) => &of_tier.writes,
        };
        queue.send(work).expect("a tier's thread lives as long as its queue");
    }

    fn done(&mut self, wait: Wait) -> Vec<TierDone> {
        self.threads.done(wait)
    }

    fn wake_by(&mut self, wake: Wake) {
        self.threads.wake_by(wake);
    }
}

impl Worker {
    fn run(&self, work: &Mutex<Receiver<TierWork>>) {
        // Held while waiting: then there is nothing to do for the others.
        let next = || work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        while let Ok(TierWork { id, task, .. }) = next() {
            let mut removed = 0;
            let (done, evicted, failed) = match &task {
                TierTask::LookUp(keys) => match self.tier.contains_many(keys) {
                    Ok(found) => (found, Vec::new(), false),
                    Err(_) => (vec![false; keys.len()], Vec::new(), true),
                },
                TierTask::Read(pages) => self.read(pages),
                TierTask::Write(pages) => self.write(pages),
                TierTask::RemovePrefix(prefix) => {
                    let result = self.tier.remove_prefix(prefix);
                    removed = *result.as_ref().unwrap_or(&0);
                    (Vec::new(), Vec::new(), result.is_err())
                }
            };
            self.reports.report(TierDone { id, done, removed, evicted, failed });
        }
    }

    /// What was written survives the process.
    fn run_and_sync(&self, work: &Mutex<Receiver<TierWork>>) {
        self.run(work);
        if let Err(error) = self.tier.sync() {
            tracing::warn!("pages of the {} tier may be lost: {error}", self.tier.name());
        }
    }

    fn read(&self, pages: &[(PageKey, StorePageId)]) -> (Vec<bool>, Vec<PageKey>, bool) {
        let keys: Vec<PageKey> = pages.iter().map(|(key, _)| *key).collect();
        let mut arrived = vec![false; pages.len()];
        let mut damaged = Vec::new();
        let result = self.tier.get_many(&keys, &mut |index, bytes| {
            let (key, stored) = pages[index];
            let header = RecordHeader { model: self.model, key };
            match record::decode(bytes, &header, self.pages.page_bytes()) {
                Ok(page) => {
                    let to = self.pages.try_write(stored.index());
                    to.expect("nobody uses it").copy_from_slice(page);
                    arrived[index] = true;
                }
                Err(fault) => damaged.push((key, fault)),
            }
        });
        if let Some((_, first)) = damaged.first() {
            let (count, name) = (damaged.len(), self.tier.name());
            tracing::warn!("{count} pages of the {name} tier are left out; the first is {first}");
            self.tier.count_damaged(count);
            let keys: Vec<PageKey> = damaged.iter().map(|(key, _)| *key).collect();
            // Where that fails they are found again, and left out again.
            let _ = self.tier.remove_many(&keys);
        }
        (arrived, Vec::new(), result.is_err())
    }

    fn write(&self, pages: &[WrittenPage]) -> (Vec<bool>, Vec<PageKey>, bool) {
        let encode = |written: &WrittenPage| {
            let page = self.pages.try_read(written.page.index()).expect("nobody writes it");
            record::encode(&RecordHeader { model: self.model, key: written.key }, &page)
        };
        let bytes: Vec<Vec<u8>> = pages.iter().map(encode).collect();
        let record = |(written, bytes): (&WrittenPage, _)| {
            let WrittenPage { key, priority, ttl_ms, .. } = *written;
            TierRecord { key, bytes, retention: TierRetention { priority, ttl_ms } }
        };
        let records: Vec<_> =
            pages.iter().zip(bytes.iter().map(Vec::as_slice)).map(record).collect();
        match self.tier.put_many(&records) {
            Ok(stored) => (stored.kept, stored.evicted, false),
            Err(_) => (vec![false; pages.len()], Vec::new(), true),
        }
    }
}

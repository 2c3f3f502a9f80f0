//! Handles that are on their way: loads, saves, pins, and the sequences that wait for them.
//!
//! Work holds its pages of the store until it is done, whatever becomes of who asked for it. A
//! sequence that waits here is in no queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_cache::{StorePageId, StoreSpace, WorkId};
use terrace_tiers::{HandleId, HandleManifest, HandleTask, HandleWork};

use crate::error::Error;
use crate::generate::kept_handle::KeptHandle;
use crate::generate::kv_handle::KvHandle;
use crate::generate::past::Past;
use crate::generate::seq_id::SeqId;
use crate::generate::token_event::Failure;

#[derive(Default)]
pub(crate) struct HandleWorkUnderWay {
    next_id: u64,
    works: BTreeMap<WorkId, Work>,
    /// For who carries work out.
    unstarted: Vec<HandleWork>,
    jobs: Vec<HandleJob>,
    /// Sequences that wait until what they go on from is loaded.
    parked: BTreeMap<SeqId, (KvHandle, Arc<Past>)>,
    /// Sequences that cannot go on.
    failed: BTreeMap<SeqId, Failure>,
    results: Vec<(HandleId, Result<KeptHandle, Error>)>,
}

pub(crate) enum Work {
    Load { handle: KvHandle, past: Arc<Past>, pages: Vec<StorePageId> },
    Save { job: HandleJob, pages: Vec<StorePageId> },
}

/// Something that is kept, or will be when it is loaded, is to be pinned or saved or both.
pub(crate) struct HandleJob {
    pub(crate) handle: KvHandle,
    pub(crate) id: HandleId,
    /// How it is loaded, if it is not there.
    pub(crate) past: Option<Arc<Past>>,
    pub(crate) manifest: Option<Box<HandleManifest>>,
    pub(crate) pin: bool,
    /// What is kept knows of it.
    pub(crate) is_counted: bool,
}

impl HandleWorkUnderWay {
    /// Nothing is carried out, and nobody waits for that.
    pub(crate) fn is_empty(&self) -> bool {
        self.works.is_empty() && self.jobs.is_empty() && self.parked.is_empty()
    }

    /// Work is being carried out.
    pub(crate) fn is_working(&self) -> bool {
        !self.works.is_empty()
    }

    pub(crate) fn park(&mut self, seq: SeqId, handle: KvHandle, past: Arc<Past>) {
        let earlier = self.parked.insert(seq, (handle, past));
        assert!(earlier.is_none(), "{seq:?} waits already");
    }

    /// Whether it has waited.
    pub(crate) fn unpark(&mut self, seq: SeqId) -> bool {
        self.parked.remove(&seq).is_some()
    }

    pub(crate) fn is_parked(&self, seq: SeqId) -> bool {
        self.parked.contains_key(&seq)
    }

    pub(crate) fn parked(&self) -> usize {
        self.parked.len()
    }

    pub(crate) fn parked_for(&self, handle: KvHandle) -> Vec<SeqId> {
        let parked = self.parked.iter().filter(|(_, (waits_for, _))| *waits_for == handle);
        parked.map(|(seq, _)| *seq).collect()
    }

    /// What somebody waits for.
    pub(crate) fn wanted(&self) -> BTreeMap<KvHandle, Arc<Past>> {
        let parked = self.parked.values().map(|(handle, past)| (*handle, past));
        let jobs = self.jobs.iter().filter_map(|job| Some((job.handle, job.past.as_ref()?)));
        parked.chain(jobs).map(|(handle, past)| (handle, Arc::clone(past))).collect()
    }

    pub(crate) fn add_job(&mut self, job: HandleJob) {
        self.jobs.push(job);
    }

    /// The jobs that are not carried out; those that go on waiting are added again.
    pub(crate) fn take_jobs(&mut self) -> Vec<HandleJob> {
        std::mem::take(&mut self.jobs)
    }

    /// The first of them that `matches`; it waits no longer.
    pub(crate) fn take_job(&mut self, matches: impl Fn(&HandleJob) -> bool) -> Option<HandleJob> {
        self.jobs.iter().position(matches).map(|index| self.jobs.remove(index))
    }

    pub(crate) fn fail(&mut self, seq: SeqId, why: Failure) {
        self.failed.insert(seq, why);
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    pub(crate) fn take_failed(&mut self) -> BTreeMap<SeqId, Failure> {
        std::mem::take(&mut self.failed)
    }

    pub(crate) fn report(&mut self, id: HandleId, result: Result<KeptHandle, Error>) {
        self.results.push((id, result));
    }

    pub(crate) fn take_results(&mut self) -> Vec<(HandleId, Result<KeptHandle, Error>)> {
        std::mem::take(&mut self.results)
    }

    pub(crate) fn is_loading(&self, handle: KvHandle) -> bool {
        let loads = |work: &Work| matches!(work, Work::Load { handle: of, .. } if *of == handle);
        self.works.values().any(loads)
    }

    /// New work, which has become a holder of its pages.
    pub(crate) fn begin(&mut self, work: Work, task: HandleTask) {
        self.next_id += 1;
        let id = WorkId(self.next_id);
        self.works.insert(id, work);
        self.unstarted.push(HandleWork { id, task });
    }

    /// Work that nobody has started.
    pub(crate) fn take_unstarted(&mut self) -> Vec<HandleWork> {
        std::mem::take(&mut self.unstarted)
    }

    /// It is done. Its pages are still held.
    pub(crate) fn end(&mut self, id: WorkId) -> Work {
        self.works.remove(&id).expect("the work is under way")
    }

    pub(crate) fn held_in_store(&self) -> impl Iterator<Item = StorePageId> {
        self.works.values().flat_map(Work::pages).copied()
    }
}

impl Work {
    fn pages(&self) -> &[StorePageId] {
        match self {
            Work::Load { pages, .. } | Work::Save { pages, .. } => pages,
        }
    }

    /// Lets its pages go.
    pub(crate) fn release(&self, store: &mut StoreSpace) {
        store.release(self.pages());
    }
}

//! Work of the lower tiers that is not done.

use std::collections::{BTreeMap, HashSet};

use terrace_cache::{PageKey, StorePageId, StoreSpace, TierId, TierTask, TierWork, WorkId};

use crate::generate::seq_id::SeqId;

/// It holds the pages of the store that it reads or writes.
#[derive(Default)]
pub(crate) struct TierWorkUnderWay {
    next_id: u64,
    /// And the sequence that looks something up.
    works: BTreeMap<WorkId, (TierWork, Option<SeqId>)>,
    reading: HashSet<PageKey>,
    writing: usize,
}

impl TierWorkUnderWay {
    pub(crate) fn is_empty(&self) -> bool {
        self.works.is_empty()
    }

    /// Whether this content is being read.
    pub(crate) fn reads(&self, key: &PageKey) -> bool {
        self.reading.contains(key)
    }

    /// Pages that are being read.
    pub(crate) fn reading(&self) -> usize {
        self.reading.len()
    }

    /// Pages that are being written, once for each tier.
    pub(crate) fn writing(&self) -> usize {
        self.writing
    }

    /// New work, which has become a holder of its pages.
    pub(crate) fn begin(&mut self, tier: TierId, task: TierTask, seq: Option<SeqId>) -> TierWork {
        self.next_id += 1;
        let id = WorkId(self.next_id);
        match &task {
            TierTask::LookUp(_) | TierTask::RemovePrefix(_) => {}
            TierTask::Read(pages) => self.reading.extend(pages.iter().map(|(key, _)| *key)),
            TierTask::Write(pages) => self.writing += pages.len(),
        }
        let begun = TierWork { id, tier, task };
        self.works.insert(id, (begun.clone(), seq));
        begun
    }

    /// It is done. Its pages are still held; see [`release`](Self::release).
    pub(crate) fn end(&mut self, id: WorkId) -> (TierWork, Option<SeqId>) {
        let (ended, seq) = self.works.remove(&id).expect("the work is under way");
        match &ended.task {
            TierTask::LookUp(_) | TierTask::RemovePrefix(_) => {}
            TierTask::Read(pages) => {
                pages.iter().for_each(|(key, _)| assert!(self.reading.remove(key), "read twice"));
            }
            TierTask::Write(pages) => self.writing -= pages.len(),
        }
        (ended, seq)
    }

    /// Lets the pages go that ended work has held.
    pub(crate) fn release(ended: &TierWork, store: &mut StoreSpace) {
        held(ended).for_each(|page| store.release(&[page]));
    }

    pub(crate) fn held_in_store(&self) -> impl Iterator<Item = StorePageId> {
        self.works.values().flat_map(|(work, _)| held(work))
    }
}

fn held(work: &TierWork) -> Box<dyn Iterator<Item = StorePageId> + '_> {
    match &work.task {
        TierTask::LookUp(_) | TierTask::RemovePrefix(_) => Box::new(std::iter::empty()),
        TierTask::Read(pages) => Box::new(pages.iter().map(|(_, page)| *page)),
        TierTask::Write(pages) => Box::new(pages.iter().map(|written| written.page)),
    }
}

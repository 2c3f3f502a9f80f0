//! Pages of users in the tiers below host memory: what is under way there, and for whom.

use std::collections::BTreeMap;

use terrace_cache::users::{LowerPage, UserCache};
use terrace_cache::{
    LowerTiers, PageKey, StorePageId, TierDone, TierId, TierTask, TierWork, WorkId, WrittenPage,
};

use super::rank_job::JobId;
use super::removals::RemovalId;

pub(super) struct UserTiers {
    lower: LowerTiers,
    next_id: u64,
    under_way: BTreeMap<WorkId, (TierId, Task)>,
    /// Pages that are written, until the last tier is done with them.
    writes: BTreeMap<u64, WriteBatch>,
    /// Most pages of one read or write.
    batch_pages: usize,
    counts: UserTierCounts,
}

/// Pages that lower tiers have given and taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserTierCounts {
    pub read: u64,
    pub written: u64,
    /// Asked for and not given.
    pub missed: u64,
}

enum Task {
    LookUp { job: JobId, keys: Vec<PageKey> },
    Read { job: JobId, pages: Vec<LowerPage> },
    Write { batch: u64, indices: Vec<usize> },
    Remove(RemovalId),
}

struct WriteBatch {
    pages: Vec<LowerPage>,
    under_way: usize,
}

/// Whose work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TierResult {
    /// So many pages have come for the job.
    Fetched {
        job: JobId,
        pages: usize,
    },
    Written,
    Removed {
        removal: RemovalId,
        tier: TierId,
        records: usize,
        failed: bool,
    },
}

/// After a failure a tier is left alone for so long.
const PAUSE_MS: u64 = 1000;
/// Pages of writes under way.
const WRITING_MOST: usize = 4;

impl UserTiers {
    /// What each tier has, where that is known; the fastest first.
    pub(super) fn new(listed: Vec<Option<Vec<PageKey>>>, batch_pages: usize) -> Self {
        let mut lower = LowerTiers::default();
        for keys in listed {
            lower.add(keys);
        }
        UserTiers {
            lower,
            next_id: 0,
            under_way: BTreeMap::new(),
            writes: BTreeMap::new(),
            batch_pages: batch_pages.max(1),
            counts: UserTierCounts::default(),
        }
    }

    pub(super) fn counts(&self) -> UserTierCounts {
        self.counts
    }

    pub(super) fn set_now(&mut self, now_ms: u64) {
        self.lower.set_now(now_ms);
    }

    /// Whether a tier can be asked.
    pub(super) fn any_works(&self) -> bool {
        self.lower.any_works()
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    pub(super) fn has(&self, key: &PageKey) -> bool {
        self.lower.find(key).is_some()
    }

    /// Asks tiers that others write too which of these they have.
    pub(super) fn look_up(&mut self, job: JobId, keys: &[PageKey]) -> Vec<TierWork> {
        let unknown = |key: &&PageKey| self.lower.find(key).is_none();
        let keys: Vec<PageKey> = keys.iter().filter(unknown).copied().collect();
        if keys.is_empty() {
            return Vec::new();
        }
        let tiers = self.lower.unlisted();
        let begin = |tier| {
            let task = Task::LookUp { job, keys: keys.clone() };
            self.begin(tier, TierTask::LookUp(keys.clone()), task)
        };
        tiers.into_iter().map(begin).collect()
    }

    /// Reads pages; those that no tier has are given back.
    pub(super) fn read(
        &mut self,
        job: JobId,
        pages: Vec<LowerPage>,
    ) -> (Vec<TierWork>, Vec<LowerPage>) {
        let mut by_tier: BTreeMap<TierId, Vec<LowerPage>> = BTreeMap::new();
        let mut absent = Vec::new();
        for page in pages {
            match self.lower.find(&page.key) {
                Some(tier) => by_tier.entry(tier).or_default().push(page),
                None => absent.push(page),
            }
        }
        let mut works = Vec::new();
        for (tier, pages) in by_tier {
            for pages in pages.chunks(self.batch_pages) {
                let records = pages.iter().map(|page| (page.key, page.page)).collect();
                let task = Task::Read { job, pages: pages.to_vec() };
                works.push(self.begin(tier, TierTask::Read(records), task));
            }
        }
        (works, absent)
    }

    /// Gives pages that have come to the host to the tiers that lack them.
    pub(super) fn write(&mut self, cache: &mut UserCache) -> Vec<TierWork> {
        let mut works = Vec::new();
        while self.writes.len() < WRITING_MOST && self.lower.any_works() {
            let pages = cache.to_write(self.batch_pages);
            if pages.is_empty() {
                break;
            }
            works.extend(self.write_batch(pages, cache));
        }
        works
    }

    fn write_batch(&mut self, pages: Vec<LowerPage>, cache: &mut UserCache) -> Vec<TierWork> {
        let mut by_tier: BTreeMap<TierId, Vec<usize>> = BTreeMap::new();
        for (index, page) in pages.iter().enumerate() {
            for tier in self.lower.lacking(&page.key) {
                by_tier.entry(tier).or_default().push(index);
            }
        }
        if by_tier.is_empty() {
            pages.iter().for_each(|page| cache.written(page, self.lower.has(&page.key)));
            return Vec::new();
        }
        self.next_id += 1;
        let batch = self.next_id;
        let mut works = Vec::new();
        for (tier, indices) in &by_tier {
            let written = indices.iter().map(|index| {
                let LowerPage { key, page, .. } = pages[*index];
                WrittenPage { key, page, priority: PRIORITY, ttl_ms: None }
            });
            let written = written.collect();
            let task = Task::Write { batch, indices: indices.clone() };
            works.push(self.begin(*tier, TierTask::Write(written), task));
        }
        self.writes.insert(batch, WriteBatch { pages, under_way: by_tier.len() });
        works
    }

    /// All records whose keys begin so go, on every tier.
    pub(super) fn remove(&mut self, removal: RemovalId, prefix: &[u8]) -> Vec<TierWork> {
        self.lower.remove_prefix(prefix);
        let tiers = self.lower.ids();
        let begin =
            |tier| self.begin(tier, TierTask::RemovePrefix(prefix.to_vec()), Task::Remove(removal));
        tiers.map(begin).collect()
    }

    /// Work is done, with what follows for users.
    pub(super) fn done(
        &mut self,
        done: &TierDone,
        cache: &mut UserCache,
        now_ms: u64,
    ) -> TierResult {
        let (tier, task) = self.under_way.remove(&done.id).expect("the work is under way");
        if done.failed {
            self.lower.pause(tier, now_ms + PAUSE_MS);
        }
        for key in &done.evicted {
            self.lower.remove(tier, key);
            if !self.lower.has(key) {
                cache.gone_below(key);
            }
        }
        match task {
            Task::LookUp { job, keys } => {
                let found = keys.iter().zip(&done.done).filter(|(_, found)| **found);
                found.for_each(|(key, _)| self.lower.insert(tier, *key));
                TierResult::Fetched { job, pages: 0 }
            }
            Task::Read { job, pages } => {
                let read: Vec<_> = pages.into_iter().zip(done.done.iter().copied()).collect();
                for (page, _) in read.iter().filter(|(_, is_there)| !is_there) {
                    self.lower.remove(tier, &page.key);
                }
                cache.read(&read);
                let come = done.done.iter().filter(|it| **it).count();
                self.counts.read += come as u64;
                self.counts.missed += (read.len() - come) as u64;
                TierResult::Fetched { job, pages: come }
            }
            Task::Write { batch, indices } => {
                self.written(tier, batch, &indices, done, cache);
                TierResult::Written
            }
            Task::Remove(removal) => {
                let TierDone { removed: records, failed, .. } = *done;
                TierResult::Removed { removal, tier, records, failed }
            }
        }
    }

    fn written(
        &mut self,
        tier: TierId,
        batch: u64,
        indices: &[usize],
        done: &TierDone,
        cache: &mut UserCache,
    ) {
        let it = self.writes.get_mut(&batch).expect("the batch is under way");
        it.under_way -= 1;
        let is_last = it.under_way == 0;
        let kept = indices.iter().zip(&done.done).filter(|(_, kept)| **kept);
        for (index, _) in kept {
            self.lower.insert(tier, it.pages[*index].key);
            self.counts.written += 1;
        }
        if is_last && let Some(it) = self.writes.remove(&batch) {
            it.pages.iter().for_each(|page| cache.written(page, self.lower.has(&page.key)));
        }
    }

    /// Pages of host memory that reads and writes hold.
    pub(super) fn held(&self) -> impl Iterator<Item = StorePageId> {
        let reads = self.under_way.values().filter_map(|(_, task)| match task {
            Task::Read { pages, .. } => Some(pages),
            _ => None,
        });
        let writes = self.writes.values().map(|batch| &batch.pages);
        reads.chain(writes).flatten().map(|page| page.page)
    }

    fn begin(&mut self, tier: TierId, asked: TierTask, task: Task) -> TierWork {
        self.next_id += 1;
        let id = WorkId(self.next_id);
        self.under_way.insert(id, (tier, task));
        TierWork { id, tier, task: asked }
    }
}

/// Of all users' records.
const PRIORITY: u8 = terrace_cache::placement::Retention::DEFAULT_PRIORITY;

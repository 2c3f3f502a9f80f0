//! Lower tiers that keep the simulated content of pages, and are slow, full, forgetful or gone.
//!
//! What they keep outlives an engine: the next one finds it, as after a restart, or as on a tier
//! that servers share. Pages of the store are read and written when work is done, some time after
//! it was started.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use terrace_cache::{PageKey, TierDone, TierTask, TierWork};
use terrace_testkit::Rng;
use terrace_tiers::{TierExecutor, Wait, Wake};

use crate::simulation_memory::{Memory, PageContent};
use crate::simulation_work::SlowWork;

/// What one tier has.
pub type Records = Arc<Mutex<BTreeMap<PageKey, PageContent>>>;

#[derive(Clone)]
pub struct SimulatedTier {
    pub records: Records,
    /// Most records; those that leave for others are reported where `is_listed`.
    pub capacity: usize,
    pub is_listed: bool,
    /// One work of so many fails; 0 never.
    pub failures: usize,
}

impl SimulatedTier {
    pub fn random(rng: &mut Rng) -> Self {
        SimulatedTier {
            records: Records::default(),
            capacity: 1 + rng.below(60),
            is_listed: rng.below(2) == 0,
            failures: rng.below(2) * (2 + rng.below(20)),
        }
    }

    /// As an engine is set up with it.
    pub fn listed(&self) -> Option<Vec<PageKey>> {
        self.is_listed.then(|| self.lock().keys().copied().collect())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PageKey, PageContent>> {
        self.records.lock().expect("nobody has panicked")
    }
}

pub struct SimulatedTiers {
    memory: Arc<Mutex<Memory>>,
    tiers: Vec<SimulatedTier>,
    under_way: SlowWork<TierWork>,
    rng: Rng,
}

/// Work is done at the latest when it is asked for so often.
const LONGEST_WORK: usize = 9;

impl SimulatedTiers {
    pub fn new(memory: Arc<Mutex<Memory>>, tiers: Vec<SimulatedTier>, seed: u64) -> Self {
        SimulatedTiers {
            memory,
            tiers,
            under_way: SlowWork::new(LONGEST_WORK),
            rng: Rng::new(seed ^ 2),
        }
    }

    fn carry_out(&mut self, work: TierWork) -> TierDone {
        let tier = self.tiers[work.tier.index()].clone();
        let count = match &work.task {
            TierTask::LookUp(keys) => keys.len(),
            TierTask::Read(pages) => pages.len(),
            TierTask::Write(pages) => pages.len(),
            TierTask::RemovePrefix(_) => 0,
        };
        let none = vec![false; count];
        let fails = 0 < tier.failures && self.rng.below(tier.failures) == 0;
        if fails {
            let (evicted, removed) = (Vec::new(), 0);
            return TierDone { id: work.id, done: none, removed, evicted, failed: true };
        }
        let mut memory = self.memory.lock().expect("nobody has panicked");
        let mut records = tier.lock();
        let mut evicted = Vec::new();
        let done = match &work.task {
            TierTask::LookUp(keys) => keys.iter().map(|key| records.contains_key(key)).collect(),
            TierTask::Read(pages) => {
                let read = |(key, page): &(PageKey, _)| match records.get(key) {
                    Some(content) => {
                        memory.fill_stored(*page, content.clone());
                        true
                    }
                    None => false,
                };
                pages.iter().map(read).collect()
            }
            TierTask::Write(pages) => {
                let mut kept = none;
                for (written, kept) in pages.iter().zip(&mut kept) {
                    // Now and then it is not worth its place.
                    if self.rng.below(8) == 0 {
                        continue;
                    }
                    let content = memory.stored(written.page).clone();
                    if let Some(known) = records.get(&written.key) {
                        assert!(known.holds_same(&content), "{:?} has two contents", written.key);
                    }
                    while tier.capacity <= records.len() {
                        let keys: Vec<PageKey> = records.keys().copied().collect();
                        let gone = *self.rng.pick(&keys);
                        records.remove(&gone);
                        evicted.push(gone);
                    }
                    records.insert(written.key, content);
                    *kept = true;
                }
                // What left again for what was written after it.
                for (written, kept) in pages.iter().zip(&mut kept) {
                    *kept &= records.contains_key(&written.key);
                }
                kept
            }
            TierTask::RemovePrefix(_) => unreachable!("a prompt's pages belong to nobody"),
        };
        evicted.retain(|key| tier.is_listed && !records.contains_key(key));
        // Others write a tier that is not listed, and push records out.
        if !tier.is_listed && self.rng.below(4) == 0 {
            records.pop_first();
        }
        TierDone { id: work.id, done, removed: 0, evicted, failed: false }
    }
}

impl TierExecutor for SimulatedTiers {
    fn start(&mut self, work: TierWork) {
        if let TierTask::Read(pages) = &work.task {
            let mut memory = self.memory.lock().expect("nobody has panicked");
            pages.iter().for_each(|(_, page)| memory.fill_stored(*page, PageContent::default()));
        }
        self.under_way.push(work, &mut self.rng);
    }

    fn done(&mut self, wait: Wait) -> Vec<TierDone> {
        let done = self.under_way.take_done(wait, &mut self.rng);
        done.into_iter().map(|work| self.carry_out(work)).collect()
    }

    fn wake_by(&mut self, _: Wake) {}
}

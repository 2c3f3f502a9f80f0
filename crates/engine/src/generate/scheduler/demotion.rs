//! Content goes to the levels below, ahead of need: device to store, store to the lower tiers.
//!
//! A level keeps a reserve of pages that can be taken without losing anything: free ones, and idle
//! ones whose content a level below has too. Where it runs short, the idle pages that go first are
//! copied below; they stay until their room is needed. With write-through every page is copied as
//! soon as it is final. Nobody waits for any of it, and what cannot be copied is lost at most from
//! the cache.

use std::collections::BTreeMap;

use terrace_cache::placement::Retention;
use terrace_cache::{Direction, PageKey, TierDone, TierId, TierTask, WrittenPage};

use crate::generate::moves_under_way::MoveOwner;
use crate::generate::scheduler::Scheduler;
use crate::generate::sequence::Sequences;
use crate::generate::step_plan::StepPlan;
use crate::generate::tier_work_under_way::TierWorkUnderWay;

/// How long a tier that has failed is left alone. It has a circuit breaker of its own; this keeps
/// the scheduler from asking in vain at every step.
const PAUSE_MS: u64 = 1000;

impl Scheduler {
    /// Begins copies to the levels below, as far as reserves are short.
    pub(super) fn demote(&mut self, plan: &mut StepPlan) {
        self.copy_to_store(plan);
        self.write_to_tiers(plan);
        self.note_forgotten();
    }

    /// Pages became final on the device.
    pub(super) fn sealed(&mut self, keys: Vec<PageKey>) {
        for key in keys {
            let is_clean = self.store.get(&key).is_some() || self.lower.has(&key);
            self.space.set_clean(&key, is_clean);
            if self.tiers.writes_through && !is_clean {
                self.unwritten.push_back(key);
            }
        }
    }

    /// From now on all content is copied to the lower tiers, as far as they take it; whether there
    /// are any.
    pub(crate) fn flush(&mut self) -> bool {
        if self.lower.is_empty() {
            return false;
        }
        self.tiers.device_reserve = self.space.total();
        self.tiers.store_reserve = self.store.total();
        true
    }

    /// Work of a tier is done.
    pub(crate) fn tier_done(&mut self, done: &TierDone, seqs: &mut Sequences) {
        let (ended, seq) = self.work.end(done.id);
        if done.failed {
            self.lower.pause(ended.tier, self.now_ms + PAUSE_MS);
        }
        match &ended.task {
            TierTask::LookUp(keys) => {
                self.looked_up(ended.tier, keys, done);
                if let Some(seq) = seq {
                    self.extend_match(seq, seqs);
                }
            }
            TierTask::Read(pages) => {
                for ((key, page), arrived) in pages.iter().zip(&done.done) {
                    if *arrived {
                        self.store.keep(*page, *key, Retention::default());
                        self.store.set_clean(key, true);
                        self.space.set_clean(key, true);
                        self.counters.tier_pages_read += 1;
                    } else if !done.failed {
                        self.lower.remove(ended.tier, key);
                    }
                }
            }
            TierTask::Write(pages) => self.written(ended.tier, pages, done),
            TierTask::RemovePrefix(_) => unreachable!("a prompt's pages belong to nobody"),
        }
        TierWorkUnderWay::release(&ended, &mut self.store);
        self.gave_up(ended.tier, &done.evicted);
        self.note_forgotten();
    }

    fn written(&mut self, tier: TierId, pages: &[WrittenPage], done: &TierDone) {
        for (WrittenPage { key, .. }, kept) in pages.iter().zip(&done.done) {
            if *kept {
                self.lower.insert(tier, *key);
                self.counters.tier_pages_written += 1;
            }
            // What a tier does not want is not offered again.
            if *kept || !done.failed {
                self.store.set_clean(key, true);
            }
            if self.lower.has(key) {
                self.space.set_clean(key, true);
            }
        }
    }

    /// A tier let content go.
    fn gave_up(&mut self, tier: TierId, keys: &[PageKey]) {
        for key in keys {
            self.lower.remove(tier, key);
            if !self.lower.has(key) {
                self.store.set_clean(key, false);
                let is_stored = self.store.get(key).is_some();
                self.space.set_clean(key, is_stored);
            }
        }
    }

    /// The store forgot content: of what is on the device it may have been the only copy below.
    fn note_forgotten(&mut self) {
        for key in self.store.take_forgotten() {
            let is_below = self.lower.has(&key);
            self.space.set_clean(&key, is_below);
        }
    }

    fn copy_to_store(&mut self, plan: &mut StepPlan) {
        let (mut content, mut pages) = (Vec::new(), Vec::new());
        for key in self.pages_to_demote() {
            let page = self.space.find(&key).expect("it is on the device");
            let claims = self.space.claims(page).clone();
            // What is less important than all of the store stays where it is, and may be lost.
            let Some(stored) = self.store.take_for(&claims) else { continue };
            self.space.share_aside(page);
            content.push((key, claims));
            pages.push((page, stored));
        }
        if pages.is_empty() {
            return;
        }
        let taken: Vec<_> = pages.iter().map(|(_, stored)| *stored).collect();
        let owner = MoveOwner::Content(content);
        let begun = self.moves.begin(owner, Direction::SwapOut, pages, &mut self.store);
        // The move is their only holder.
        self.store.release(&taken);
        self.counters.pages_demoted += taken.len() as u64;
        plan.moves.push(begun);
    }

    /// Content to copy to the store now: what waits to be written through, then idle pages as the
    /// reserve is short. Not more than the store can take without losing what the tiers have not.
    fn pages_to_demote(&mut self) -> Vec<PageKey> {
        let leaving = self.moves.leaving_content();
        let room = match self.lower.is_empty() {
            true => self.store.available(),
            false => self.store.reserve(),
        };
        let most = self.tiers.batch_pages.min(room);
        let mut wanted: Vec<PageKey> = Vec::new();
        while wanted.len() < most
            && let Some(key) = self.unwritten.pop_front()
        {
            let is_new = !wanted.contains(&key) && !self.moves.is_leaving(&key);
            let is_here = self.space.find(&key).is_some();
            if is_new && is_here && self.store.get(&key).is_none() {
                wanted.push(key);
            }
        }
        let short = self.tiers.device_reserve.saturating_sub(self.space.reserve() + leaving);
        let most = most.saturating_sub(wanted.len()).min(short);
        for (_, key) in self.space.dirty_idle(most) {
            if !wanted.contains(&key) && !self.moves.is_leaving(&key) {
                wanted.push(key);
            }
        }
        wanted
    }

    fn write_to_tiers(&mut self, plan: &mut StepPlan) {
        if !self.lower.any_works() || self.tiers.batch_pages <= self.work.writing() {
            return;
        }
        let reserve = match self.tiers.writes_through {
            true => self.store.total(),
            false => self.tiers.store_reserve,
        };
        let short = reserve.saturating_sub(self.store.reserve() + self.work.writing());
        let mut by_tier: BTreeMap<TierId, Vec<WrittenPage>> = BTreeMap::new();
        for page in self.store.dirty_idle(short.min(self.tiers.batch_pages)) {
            let key = self.store.key(page).expect("an idle page is kept");
            // Records have one label.
            let Retention { priority, expires_ms } = self.store.claims(page).longest();
            let ttl_ms = expires_ms.map(|expires| expires.saturating_sub(self.now_ms));
            for tier in self.lower.lacking(&key) {
                self.store.share_aside(&[page]);
                by_tier.entry(tier).or_default().push(WrittenPage { key, page, priority, ttl_ms });
            }
        }
        for (tier, pages) in by_tier {
            plan.tier_work.push(self.work.begin(tier, TierTask::Write(pages), None));
        }
    }
}

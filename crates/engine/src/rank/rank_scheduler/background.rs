//! What happens beside the steps: moves that arrive, work of lower tiers, removals, deadlines.

use super::{
    Ended, MoveId, PageMove, RankError, RankPlan, RankScheduler, Removal, RemovalId, Removed,
    RemovedRecords, TierDone, TierResult, UserKey,
};
use crate::rank::rank_job::JobId;

impl RankScheduler {
    /// A copy to the host has arrived.
    pub fn arrived(&mut self, id: MoveId) {
        self.cache.arrived(id);
    }

    /// Work of a lower tier is done; more may follow from it.
    pub fn tier_done(&mut self, done: &TierDone, plan: &mut RankPlan) {
        match self.tiers.done(done, &mut self.cache, self.now_us / 1000) {
            TierResult::Written => {}
            TierResult::Removed { removal, tier, records, failed } => {
                self.removals.answered(removal, tier, RemovedRecords { records, failed });
            }
            TierResult::Fetched { job: id, pages } => {
                let is_fetching = self.fetching.contains(&id);
                // Of a job that waits no longer nothing follows.
                let Some(job) = self.jobs.get_mut(&id).filter(|_| is_fetching) else { return };
                job.progress.fetched += pages * self.limits.cache.page_tokens;
                job.progress.fetches -= 1;
                if job.progress.fetches == 0 && job.progress.looks_up {
                    self.read_below(id, plan);
                }
            }
        }
    }

    /// Whether nothing can be done before a lower tier has answered.
    pub fn only_waits_for_tiers(&self) -> bool {
        let waits = !self.fetching.is_empty() || !self.removals.is_empty() || self.flushes;
        let fetches = |id: &JobId| 0 < self.jobs[id].progress.fetches;
        let idle = self.running.is_empty() && self.waiting.is_empty();
        waits && idle && self.tiers.is_busy() && self.fetching.iter().all(fetches)
    }

    /// From now on all that is cached is copied below, as far as lower tiers take it.
    pub fn begin_flush(&mut self) {
        self.flushes = self.limits.cache.has_lower_tiers;
        if self.flushes {
            self.cache.write_all();
        }
    }

    /// Copies of a user to the host, and how many tokens they are of; `None` where there is
    /// nothing to copy, no room, or a request runs.
    pub fn offload(&mut self, user: &UserKey) -> Option<(PageMove, usize)> {
        let slot = self.cache.idle_slot(user)?;
        let begun = self.cache.offload(slot, 1, usize::MAX)?;
        let page_tokens = self.limits.cache.page_tokens;
        let tokens = (begun.pages.len() * page_tokens).min(self.cache.span(user).length);
        Some((begun, tokens))
    }

    pub fn evict_from_device(&mut self, user: &UserKey) {
        self.cache.evict_from_device(user);
    }

    /// All of a user, or of all, is to be gone from every level. Requests wait for it, and it
    /// waits for those that have begun.
    pub fn remove(&mut self, removal: Removal) -> RemovalId {
        self.removals.add(removal)
    }

    /// Removals that have ended.
    pub fn take_removed(&mut self) -> Vec<(RemovalId, Removed)> {
        self.removals.take_ended()
    }

    pub(super) fn begin_removals(&mut self, plan: &mut RankPlan) {
        for index in 0..self.removals.under_way.len() {
            let it = &self.removals.under_way[index];
            if it.outstanding.is_some() || self.is_in_use(it.removal.user.as_ref()) {
                continue;
            }
            let (id, removal) = (it.id, it.removal.clone());
            let mut removed = Removed::default();
            match &removal.user {
                Some(user) => {
                    if let Some(gone) = self.cache.remove(user) {
                        (removed.users, removed.tokens) = (1, gone.length);
                    }
                }
                None => {
                    let cache = &self.cache;
                    removed.tokens = cache.users().map(|user| cache.span(user).length).sum();
                    removed.users = self.cache.evict_all();
                }
            }
            let works = self.tiers.remove(id, &removal.prefix);
            removed.lower = vec![RemovedRecords::default(); works.len()];
            let it = &mut self.removals.under_way[index];
            it.outstanding = Some(works.len());
            it.removed = removed;
            plan.tier_work.extend(works);
        }
    }

    /// Whether a job has a user, or any.
    fn is_in_use(&self, user: Option<&UserKey>) -> bool {
        let mut begun = self.fetching.iter().chain(&self.running);
        begun.any(|id| user.is_none_or(|user| self.jobs[id].user == *user))
    }

    /// Jobs whose time was over before they could run.
    pub(super) fn end_late(&mut self, ended: &mut Vec<Ended>) {
        let now_us = self.now_us;
        let is_late = |id: &JobId| self.jobs[id].deadline_us().is_some_and(|at| at <= now_us);
        let late: Vec<JobId> =
            self.waiting.iter().chain(&self.fetching).copied().filter(is_late).collect();
        for id in late {
            let timeout_ms = self.jobs[&id].timeout_ms.unwrap_or(0);
            self.cancel(id);
            ended.push((id, Err(RankError::Late { timeout_ms })));
        }
    }
}

//! How a job gets its user, what lower tiers have of it, and its pages.

use terrace_cache::PageKey;
use terrace_cache::users::{HistoryRoot, SpanError, check_start};

use super::{Ended, RankScheduler};
use crate::rank::rank_error::RankError;
use crate::rank::rank_job::JobId;
use crate::rank::rank_plan::RankPlan;

impl RankScheduler {
    /// A waiting job gets its user, if nobody has it. Whether it runs.
    pub(super) fn admit(&mut self, id: JobId, plan: &mut RankPlan, ended: &mut Vec<Ended>) -> bool {
        let (cache, job) = (&mut self.cache, self.jobs.get_mut(&id).expect("it waits"));
        if cache.is_running(&job.user) {
            self.waiting.push(id);
            return false;
        }
        if let Some(start) = job.start {
            if let Err(error) = check_start(cache.span(&job.user).length, start) {
                self.jobs.remove(&id);
                ended.push((id, Err(error.into())));
                return false;
            }
            if job.progress.is_new {
                job.prepend(cache.ids(&job.user));
                job.progress.is_new = false;
            }
        }
        // Pages of older tables are found by the chain that they are in.
        let usable =
            |root: &HistoryRoot| self.generations.is_usable(root.generation(), self.now_us);
        let root = cache.root(&job.user).filter(usable).unwrap_or(job.root);
        job.keys = Some(cache.keys(&job.user, root, &job.ids));
        let edited = cache.counts().edited;
        let entered = cache.enter(&job.user, job.content());
        let (slot, _) = entered.expect("nobody has the user");
        job.progress.slot = Some(slot);
        job.progress.was_edited |= edited < cache.counts().edited;
        job.progress.entered_us = self.now_us;
        if self.begin_fetch(id, plan) {
            self.fetching.push(id);
            return false;
        }
        self.allocate(id, plan, ended)
    }

    /// Looks for the job's history below. Whether there is something to wait for.
    fn begin_fetch(&mut self, id: JobId, plan: &mut RankPlan) -> bool {
        if !self.limits.cache.has_lower_tiers || !self.tiers.any_works() {
            return false;
        }
        let wait_us = self.limits.wait_us;
        let job = self.jobs.get_mut(&id).expect("it is there");
        job.progress.fetch_until_us = Some(self.now_us + wait_us);
        let known = self.cache.span(&job.user).length / self.limits.cache.page_tokens;
        let keys = job.content().keys;
        let unknown = known..keys.full_pages();
        let keys: Vec<PageKey> = unknown.map(|page| keys.key(page)).collect();
        let look_ups = self.tiers.look_up(id, &keys);
        job.progress.fetches = look_ups.len();
        job.progress.looks_up = !look_ups.is_empty();
        plan.tier_work.extend(look_ups);
        if !self.jobs[&id].progress.looks_up {
            self.read_below(id, plan);
        }
        0 < self.jobs[&id].progress.fetches
    }

    /// What is known to be below comes to the host.
    pub(super) fn read_below(&mut self, id: JobId, plan: &mut RankPlan) {
        let job = self.jobs.get_mut(&id).expect("it is there");
        let slot = job.progress.slot.expect("it has its user");
        let found = self.cache.find_below(slot, job.content(), |key| self.tiers.has(key));
        let (reads, absent) = self.tiers.read(id, found);
        let absent: Vec<_> = absent.into_iter().map(|page| (page, false)).collect();
        self.cache.read(&absent);
        job.progress.looks_up = false;
        job.progress.fetches += reads.len();
        plan.tier_work.extend(reads);
    }

    /// A job that has its user gets its pages, or waits again. Whether it runs.
    pub(super) fn allocate(
        &mut self,
        id: JobId,
        plan: &mut RankPlan,
        ended: &mut Vec<Ended>,
    ) -> bool {
        let job = self.jobs.get_mut(&id).expect("it is there");
        let slot = job.progress.slot.expect("it has its user");
        let priority = job.priority;
        match self.cache.allocate(slot, job.ids.len()) {
            Err(_) => {
                job.progress.slot = None;
                self.cache.leave_failed(slot, false);
                self.queue(id, priority);
                false
            }
            // The tokens before the start were not given: without them nothing can be computed.
            Ok(prepared) if job.start.is_some_and(|start| prepared.cached < start) => {
                let (first, last) = (prepared.cached, job.start.unwrap_or(0) - 1);
                plan.promotions.extend(prepared.promotion);
                self.cache.leave(slot, job.content(), prepared.cached);
                self.jobs.remove(&id);
                let error: RankError = SpanError::Missing { first, last }.into();
                ended.push((id, Err(error)));
                false
            }
            // It was made when more was cached, and has no rows of what is to be computed.
            Ok(prepared) if prepared.cached < job.rows.first() => {
                plan.promotions.extend(prepared.promotion);
                self.cache.leave(slot, job.content(), prepared.cached);
                self.jobs.remove(&id);
                ended.push((id, Err(RankError::RowsMissing)));
                false
            }
            Ok(prepared) => {
                let page_tokens = self.limits.cache.page_tokens;
                let promoted = prepared.promotion.as_ref().map_or(0, |it| it.pages.len());
                job.progress.promoted = (promoted * page_tokens).min(prepared.cached);
                job.progress.table = prepared.table;
                job.progress.cached = prepared.cached;
                job.progress.history = prepared.cached;
                job.progress.began_us = self.now_us;
                plan.promotions.extend(prepared.promotion);
                self.running.push(id);
                true
            }
        }
    }
}

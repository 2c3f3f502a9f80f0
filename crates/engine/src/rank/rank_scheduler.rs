//! Who runs in a step, and with how many tokens: decided from what is known, without effects.
//!
//! A job *waits* until its user is free; then it *fetches* what lower tiers have of its history,
//! as long as it may; then, given all pages that it needs, it *runs* until it is done. It keeps
//! its user from the first fetch on, so two jobs of one user follow each other. Jobs that run go
//! on first, in the order in which they came; then others join by priority and arrival, as far as
//! tokens and pages go. A step has as many tokens as its budget, whatever their users: long
//! histories and many candidates are computed in parts, which changes no score.

use terrace_cache::users::{UserCache, UserCacheLimits, UserKey};
use terrace_cache::{MoveId, PageKey, PageMove, TierDone};

use super::chunk_result::ChunkResult;
use super::generations::Generations;
use super::rank_error::RankError;
use super::rank_job::{JobId, Progress, RankJob, RankJobs};
use super::rank_output::{RankOutput, StageTimes};
use super::rank_plan::{RankChunk, RankPlan};
use super::removals::{Removal, RemovalId, Removals, Removed, RemovedRecords};
use super::user_tiers::{TierResult, UserTierCounts, UserTiers};

mod admission;
mod background;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerLimits {
    pub max_step_tokens: usize,
    pub max_users: usize,
    pub max_waiting: usize,
    pub cache: UserCacheLimits,
    /// Pages of the device that can always be taken without losing anything, once those before
    /// are copied to the host.
    pub device_reserve: usize,
    /// Most pages of one copy, read or write.
    pub batch_pages: usize,
    /// How long a job waits for pages of lower tiers before it computes what is missing.
    pub wait_us: u64,
    /// Scores of a candidate.
    pub outputs: usize,
    /// How long pages stay usable whose embedding tables were replaced.
    pub max_staleness_us: Option<u64>,
}

pub struct RankScheduler {
    limits: SchedulerLimits,
    cache: UserCache,
    tiers: UserTiers,
    jobs: RankJobs,
    /// In the order in which they are tried.
    waiting: Vec<JobId>,
    fetching: Vec<JobId>,
    running: Vec<JobId>,
    removals: Removals,
    generations: Generations,
    /// All that is cached goes below.
    flushes: bool,
    next_id: u64,
    now_us: u64,
}

/// A job that has ended.
pub type Ended = (JobId, Result<RankOutput, RankError>);

impl RankScheduler {
    /// `listed` is what each lower tier has, where that is known; the fastest first.
    pub fn new(limits: SchedulerLimits, listed: Vec<Option<Vec<PageKey>>>) -> Self {
        assert!(0 < limits.max_step_tokens && 0 < limits.max_users, "a step computes something");
        assert_eq!(limits.cache.has_lower_tiers, !listed.is_empty(), "tiers below the host");
        let generations = Generations::new(limits.max_staleness_us);
        RankScheduler {
            cache: UserCache::new(limits.cache),
            tiers: UserTiers::new(listed, limits.batch_pages),
            limits,
            jobs: RankJobs::new(),
            waiting: Vec::new(),
            fetching: Vec::new(),
            running: Vec::new(),
            removals: Removals::default(),
            generations,
            flushes: false,
            next_id: 0,
            now_us: 0,
        }
    }

    /// Time goes on.
    pub fn set_now(&mut self, now_us: u64) {
        self.now_us = now_us;
        self.tiers.set_now(now_us / 1000);
    }

    pub fn cache(&self) -> &UserCache {
        &self.cache
    }

    pub fn jobs(&self) -> &RankJobs {
        &self.jobs
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.fetching.len()
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    pub fn tier_counts(&self) -> UserTierCounts {
        self.tiers.counts()
    }

    /// Nobody asks for anything, and nothing is under way.
    pub fn is_idle(&self) -> bool {
        let no_work = !self.tiers.is_busy() && self.cache.is_settled();
        self.jobs.is_empty() && self.removals.is_empty() && no_work
    }

    /// A new job, unless too many wait or it can never run.
    pub fn add(&mut self, mut job: RankJob) -> Result<JobId, RankError> {
        if job.generation != self.generations.current() {
            return Err(RankError::Outdated);
        }
        let SchedulerLimits { max_waiting, cache, .. } = self.limits;
        if max_waiting <= self.waiting() {
            return Err(RankError::Busy { waiting: self.waiting() });
        }
        let wanted = job.ids.len().div_ceil(cache.page_tokens);
        if cache.device_pages < wanted {
            return Err(RankError::TooLarge { wanted, pages: cache.device_pages });
        }
        self.next_id += 1;
        let id = JobId(self.next_id);
        job.progress.arrived_us = self.now_us;
        self.queue(id, job.priority);
        self.jobs.insert(id, job);
        Ok(id)
    }

    /// From now on jobs are of another checkpoint, and nothing that was cached is found; gives the
    /// most recently used users. There must be no jobs.
    pub fn replace_layers(&mut self, generation: u32) -> Vec<(UserKey, Vec<i64>)> {
        let users = self.cache.most_recent();
        self.cache.evict_all();
        self.replace_tables(generation);
        users
    }

    /// From now on jobs are of other tables, and what was cached stays usable. There must be no
    /// jobs.
    pub fn replace_tables(&mut self, generation: u32) {
        assert!(self.jobs.is_empty(), "{} jobs of the model before", self.jobs.len());
        self.generations.raise(generation, self.now_us);
    }

    pub fn generation(&self) -> u32 {
        self.generations.current()
    }

    /// Before all of a lower priority and those of the same that came later.
    fn queue(&mut self, id: JobId, priority: i32) {
        let before = |other: &JobId| {
            let other_priority = self.jobs[other].priority;
            priority < other_priority || priority == other_priority && *other < id
        };
        let at = self.waiting.partition_point(before);
        self.waiting.insert(at, id);
    }

    /// The next step, and jobs that ended without one.
    pub fn plan(&mut self) -> (RankPlan, Vec<Ended>) {
        let mut plan = RankPlan::default();
        let mut ended = Vec::new();
        self.end_late(&mut ended);
        let mut left = self.limits.max_step_tokens;
        for id in self.running.clone() {
            self.add_chunk(id, &mut left, &mut plan);
        }
        for id in std::mem::take(&mut self.fetching) {
            if !self.jobs[&id].progress.has_fetched(self.now_us) || !self.has_room(left) {
                self.fetching.push(id);
            } else if self.allocate(id, &mut plan, &mut ended) {
                self.add_chunk(id, &mut left, &mut plan);
            }
        }
        for id in std::mem::take(&mut self.waiting) {
            if !self.has_room(left) || self.removals.concerns(&self.jobs[&id].user) {
                self.waiting.push(id);
            } else if self.admit(id, &mut plan, &mut ended) {
                self.add_chunk(id, &mut left, &mut plan);
            }
        }
        self.begin_removals(&mut plan);
        let reserve = match self.flushes {
            true => self.limits.cache.device_pages,
            false => self.limits.device_reserve,
        };
        plan.demotions = self.cache.demote(reserve, self.limits.batch_pages);
        plan.tier_work.extend(self.tiers.write(&mut self.cache));
        (plan, ended)
    }

    fn has_room(&self, left: usize) -> bool {
        0 < left && self.running.len() < self.limits.max_users
    }

    /// When there is something to do without anything having happened.
    pub fn next_deadline_us(&self) -> Option<u64> {
        let fetching = self.fetching.iter().filter_map(|id| self.jobs[id].progress.fetch_until_us);
        let waiting = self.waiting.iter().chain(&self.fetching);
        fetching.chain(waiting.filter_map(|id| self.jobs[id].deadline_us())).min()
    }

    /// A step was computed; the jobs that are done with it.
    pub fn computed(&mut self, plan: &RankPlan, results: Vec<ChunkResult>) -> Vec<Ended> {
        for promotion in &plan.promotions {
            self.cache.arrived(promotion.id);
        }
        for chunk in &plan.chunks {
            let job = self.jobs.get_mut(&chunk.job).expect("a running job is there");
            job.progress.history = chunk.history.end;
            job.progress.candidates = chunk.candidates.end;
        }
        for ChunkResult { job, logits, found } in results {
            let job = self.jobs.get_mut(&job).expect("a running job is there");
            job.progress.logits.extend(logits);
            job.progress.found.extend(found);
        }
        let done = |id: &JobId| self.jobs[id].is_done();
        let (done, running) = self.running.iter().copied().partition(done);
        self.running = running;
        let done: Vec<JobId> = done;
        done.into_iter().map(|id| (id, Ok(self.finish(id)))).collect()
    }

    /// A step failed: its jobs end with the error, and what their users have on the device is
    /// dropped. Nothing is moving any more.
    pub fn failed(&mut self, plan: &RankPlan, why: &str) -> Vec<Ended> {
        self.cache.moves_lost();
        let ids: Vec<JobId> = plan.chunks.iter().map(|chunk| chunk.job).collect();
        self.running.retain(|id| !ids.contains(id));
        let end = |id: JobId| {
            let job = self.jobs.remove(&id).expect("a running job is there");
            let slot = job.progress.slot.expect("a running job has its user");
            self.cache.leave_failed(slot, true);
            (id, Err(RankError::Failed(why.to_owned())))
        };
        ids.into_iter().map(end).collect()
    }

    /// The client has gone. What was computed of its history stays.
    pub fn cancel(&mut self, id: JobId) {
        for list in [&mut self.waiting, &mut self.fetching, &mut self.running] {
            list.retain(|other| *other != id);
        }
        if let Some(job) = self.jobs.remove(&id)
            && let Some(slot) = job.progress.slot
        {
            self.cache.leave(slot, job.content(), job.progress.history);
        }
    }

    /// As much of a running job as the budget has room for.
    fn add_chunk(&self, id: JobId, left: &mut usize, plan: &mut RankPlan) {
        let job = &self.jobs[&id];
        let Progress { history, candidates, .. } = job.progress;
        let history = history..job.ids.len().min(history + *left);
        *left -= history.len();
        let candidates = match history.end == job.ids.len() {
            true => candidates..job.rows.candidates().min(candidates + *left),
            false => candidates..candidates,
        };
        *left -= candidates.len();
        let chunk = RankChunk { job: id, history, candidates };
        if 0 < chunk.tokens() {
            plan.chunks.push(chunk);
        }
    }

    fn finish(&mut self, id: JobId) -> RankOutput {
        let job = self.jobs.remove(&id).expect("a job that is done is there");
        let slot = job.progress.slot.expect("a running job has its user");
        self.cache.leave(slot, job.content(), job.ids.len());
        let Progress { cached, promoted, fetched, was_edited, logits, found, .. } = job.progress;
        let Progress { arrived_us, entered_us, began_us, .. } = job.progress;
        let host_tokens = promoted.saturating_sub(fetched);
        RankOutput {
            logits,
            outputs: self.limits.outputs,
            found,
            history_tokens: job.ids.len(),
            cached_tokens: cached,
            host_tokens,
            lower_tokens: promoted - host_tokens,
            unknown_ids: job.unknown_ids,
            was_edited,
            times: StageTimes {
                queued_us: entered_us - arrived_us,
                fetched_us: began_us - entered_us,
                computed_us: self.now_us.saturating_sub(began_us),
            },
        }
    }

    /// Panics unless the books agree.
    pub fn check(&self) {
        self.cache.check(self.tiers.held());
        let known = self.waiting.len() + self.fetching.len() + self.running.len();
        assert_eq!(known, self.jobs.len(), "jobs wait, fetch or run");
    }
}

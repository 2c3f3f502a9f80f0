//! Who runs in a step, and with how many tokens: decided from what is known, without effects.
//!
//! A job needs all pages of its history before it runs, and keeps its user until it is done, so
//! two jobs of one user follow each other. Jobs that run go on first, in the order in which they
//! came; then waiting ones join by priority and arrival, as far as tokens and pages go. A step has
//! as many tokens as its budget, whatever their users: long histories and many candidates are
//! computed in parts, which changes no score.

use super::rank_error::RankError;
use super::rank_job::{JobId, Progress, RankJob, RankJobs};
use super::rank_plan::{RankChunk, RankPlan};
use super::rank_request::RankOutput;
use terrace_cache::users::{SpanError, UserCache, UserCacheLimits, UserKey, check_start};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerLimits {
    pub max_step_tokens: usize,
    pub max_users: usize,
    pub max_waiting: usize,
    pub cache: UserCacheLimits,
    /// Scores of a candidate.
    pub outputs: usize,
}

pub struct RankScheduler {
    limits: SchedulerLimits,
    cache: UserCache,
    jobs: RankJobs,
    /// In the order in which they are tried.
    waiting: Vec<JobId>,
    running: Vec<JobId>,
    next_id: u64,
}

/// A job that has ended.
pub type Ended = (JobId, Result<RankOutput, RankError>);

impl RankScheduler {
    pub fn new(limits: SchedulerLimits) -> Self {
        assert!(0 < limits.max_step_tokens && 0 < limits.max_users, "a step computes something");
        RankScheduler {
            cache: UserCache::new(limits.cache),
            limits,
            jobs: RankJobs::new(),
            waiting: Vec::new(),
            running: Vec::new(),
            next_id: 0,
        }
    }

    pub fn cache(&self) -> &UserCache {
        &self.cache
    }

    pub fn cache_mut(&mut self) -> &mut UserCache {
        &mut self.cache
    }

    pub fn jobs(&self) -> &RankJobs {
        &self.jobs
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// A new job, unless too many wait or it can never run.
    pub fn add(&mut self, job: RankJob) -> Result<JobId, RankError> {
        let SchedulerLimits { max_waiting, cache, .. } = self.limits;
        if max_waiting <= self.waiting.len() {
            return Err(RankError::Busy { waiting: self.waiting.len() });
        }
        let wanted = job.ids.len().div_ceil(cache.page_tokens);
        if cache.device_pages < wanted {
            return Err(RankError::TooLarge { wanted, pages: cache.device_pages });
        }
        self.next_id += 1;
        let id = JobId(self.next_id);
        let before = |other: &JobId| job.priority <= self.jobs[other].priority;
        let at = self.waiting.partition_point(before);
        self.waiting.insert(at, id);
        self.jobs.insert(id, job);
        Ok(id)
    }

    /// The next step, and jobs that ended without one.
    pub fn plan(&mut self) -> (RankPlan, Vec<Ended>) {
        let mut plan = RankPlan::default();
        let mut ended = Vec::new();
        let mut left = self.limits.max_step_tokens;
        for id in self.running.clone() {
            self.add_chunk(id, &mut left, &mut plan);
        }
        let mut kept = Vec::new();
        for id in std::mem::take(&mut self.waiting) {
            if left == 0 || self.running.len() == self.limits.max_users {
                kept.push(id);
                continue;
            }
            match self.admit(id, &mut plan) {
                Admission::Runs => {
                    self.running.push(id);
                    self.add_chunk(id, &mut left, &mut plan);
                }
                Admission::Waits => kept.push(id),
                Admission::Refused(error) => {
                    self.jobs.remove(&id);
                    ended.push((id, Err(error)));
                }
            }
        }
        self.waiting = kept;
        (plan, ended)
    }

    /// A step was computed; the jobs that are done with it.
    pub fn computed(&mut self, plan: &RankPlan, scores: &[(JobId, &[f32])]) -> Vec<Ended> {
        for promotion in &plan.promotions {
            self.cache.arrived(promotion.id);
        }
        for chunk in &plan.chunks {
            let job = self.jobs.get_mut(&chunk.job).expect("a running job is there");
            job.progress.history = chunk.history.end;
            job.progress.candidates = chunk.candidates.end;
        }
        for (id, logits) in scores {
            let job = self.jobs.get_mut(id).expect("a running job is there");
            job.progress.logits.extend(*logits);
        }
        let done = |id: &JobId| self.jobs[id].is_done();
        let (done, running) = self.running.iter().copied().partition(done);
        self.running = running;
        let done: Vec<JobId> = done;
        done.into_iter().map(|id| (id, Ok(self.finish(id)))).collect()
    }

    /// A step failed: its jobs end with the error, and what their users have on the device is
    /// dropped.
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
        self.waiting.retain(|other| *other != id);
        if let Some(job) = self.jobs.remove(&id)
            && let Some(slot) = job.progress.slot
        {
            self.running.retain(|other| *other != id);
            self.cache.leave(slot, job.content(), job.progress.history);
        }
    }

    /// All of a user goes; `None` where nothing was, or a request of it runs.
    pub fn remove_user(&mut self, user: &UserKey) -> Option<usize> {
        self.cache.remove(user).map(|removed| removed.length)
    }

    fn admit(&mut self, id: JobId, plan: &mut RankPlan) -> Admission {
        let (cache, job) = (&mut self.cache, self.jobs.get_mut(&id).expect("it waits"));
        if let Some(start) = job.start {
            if let Err(error) = check_start(cache.span(&job.user).length, start) {
                return Admission::Refused(error.into());
            }
            if job.progress.is_new {
                job.prepend(cache.ids(&job.user), self.limits.cache.page_tokens);
                job.progress.is_new = false;
            }
        }
        let edited = cache.counts().edited;
        let Some((slot, _)) = cache.enter(&job.user, job.content()) else {
            return Admission::Waits;
        };
        match cache.allocate(slot, job.ids.len()) {
            Err(_) => {
                cache.leave_failed(slot, false);
                Admission::Waits
            }
            // The tokens before the start were not given: without them nothing can be computed.
            Ok(prepared) if job.start.is_some_and(|start| prepared.cached < start) => {
                let (first, last) = (prepared.cached, job.start.unwrap_or(0) - 1);
                cache.leave_failed(slot, false);
                Admission::Refused(SpanError::Missing { first, last }.into())
            }
            Ok(prepared) => {
                plan.promotions.extend(prepared.promotion);
                job.progress = Progress {
                    is_new: false,
                    slot: Some(slot),
                    table: prepared.table,
                    cached: prepared.cached,
                    was_edited: edited < cache.counts().edited,
                    history: prepared.cached,
                    ..Progress::default()
                };
                Admission::Runs
            }
        }
    }

    /// As much of a running job as the budget has room for.
    fn add_chunk(&self, id: JobId, left: &mut usize, plan: &mut RankPlan) {
        let job = &self.jobs[&id];
        let Progress { history, candidates, .. } = job.progress;
        let history = history..job.ids.len().min(history + *left);
        *left -= history.len();
        let candidates = match history.end == job.ids.len() {
            true => candidates..job.candidate_rows.len().min(candidates + *left),
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
        let Progress { slot, cached, was_edited, ref logits, .. } = job.progress;
        let slot = slot.expect("a running job has its user");
        self.cache.leave(slot, job.content(), job.ids.len());
        RankOutput {
            logits: logits.chunks(self.limits.outputs).map(<[f32]>::to_vec).collect(),
            history_tokens: job.ids.len(),
            cached_tokens: cached,
            unknown_ids: job.unknown_ids,
            was_edited,
        }
    }

    /// Panics unless the books agree.
    pub fn check(&self) {
        self.cache.check([]);
        let known = self.waiting.len() + self.running.len();
        assert_eq!(known, self.jobs.len(), "jobs wait or run");
    }
}

enum Admission {
    Runs,
    Waits,
    Refused(RankError),
}

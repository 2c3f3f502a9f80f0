//! The engine: a scheduler and an executor, one step after the other.

use terrace_cache::users::{CachedSpan, UserCacheCounts, UserKey};

use super::rank_error::RankError;
use super::rank_executor::RankExecutor;
use super::rank_job::{JobId, RankJob};
use super::rank_request::RankOutput;
use super::rank_scheduler::{RankScheduler, SchedulerLimits};

pub struct RankEngine {
    scheduler: RankScheduler,
    executor: Box<dyn RankExecutor>,
    stats: RankStats,
}

/// What an engine has done since its start, and holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankStats {
    pub waiting: usize,
    pub running: usize,
    pub steps: u64,
    pub requests: u64,
    pub failures: u64,
    /// Of histories: found in the cache, and computed.
    pub cached_tokens: u64,
    pub computed_tokens: u64,
    pub scored_candidates: u64,
    pub unknown_ids: u64,
    pub cache: UserCacheCounts,
    pub users: usize,
    pub free_pages: usize,
    pub pages: usize,
}

impl RankEngine {
    pub fn new(limits: SchedulerLimits, executor: Box<dyn RankExecutor>) -> Self {
        let stats = RankStats { pages: limits.cache.device_pages, ..RankStats::default() };
        RankEngine { scheduler: RankScheduler::new(limits), executor, stats }
    }

    pub fn add(&mut self, job: RankJob) -> Result<JobId, RankError> {
        self.scheduler.add(job)
    }

    pub fn cancel(&mut self, id: JobId) {
        self.scheduler.cancel(id);
    }

    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// Computes one step; the jobs that ended with it.
    pub fn step(&mut self) -> Vec<(JobId, Result<RankOutput, RankError>)> {
        let (plan, mut ended) = self.scheduler.plan();
        if !plan.chunks.is_empty() {
            self.stats.steps += 1;
            match self.executor.run(&plan, self.scheduler.jobs()) {
                Ok(scores) => {
                    let scores: Vec<(JobId, &[f32])> =
                        scores.iter().map(|it| (it.job, it.logits.as_slice())).collect();
                    ended.extend(self.scheduler.computed(&plan, &scores));
                }
                Err(error) => {
                    tracing::error!(%error, "a step of the ranking engine has failed");
                    ended.extend(self.scheduler.failed(&plan, &error.to_string()));
                }
            }
        }
        for (_, result) in &ended {
            self.count(result);
        }
        ended
    }

    fn count(&mut self, result: &Result<RankOutput, RankError>) {
        self.stats.requests += 1;
        match result {
            Ok(output) => {
                let computed = output.history_tokens - output.cached_tokens;
                self.stats.cached_tokens += output.cached_tokens as u64;
                self.stats.computed_tokens += computed as u64;
                self.stats.scored_candidates += output.logits.len() as u64;
                self.stats.unknown_ids += output.unknown_ids as u64;
            }
            Err(_) => self.stats.failures += 1,
        }
    }

    pub fn stats(&self) -> RankStats {
        let cache = self.scheduler.cache();
        RankStats {
            waiting: self.scheduler.waiting(),
            running: self.scheduler.running(),
            cache: cache.counts(),
            users: cache.users().count(),
            free_pages: cache.free_device_pages(),
            ..self.stats
        }
    }

    /// What is cached of a user.
    pub fn span(&self, user: &UserKey) -> CachedSpan {
        self.scheduler.cache().span(user)
    }

    /// Users of whom something is cached, the most recently used first.
    pub fn users(&self, most: usize) -> Vec<(UserKey, CachedSpan)> {
        let cache = self.scheduler.cache();
        let mut users: Vec<&UserKey> = cache.users().collect();
        users.reverse();
        users.truncate(most);
        users.into_iter().map(|user| (user.clone(), cache.span(user))).collect()
    }

    /// All of a user goes; how many tokens were cached. `None` while a request of it runs.
    pub fn remove_user(&mut self, user: &UserKey) -> Option<usize> {
        match self.span(user) {
            CachedSpan { length: 0, device_start: None } => Some(0),
            _ => self.scheduler.remove_user(user),
        }
    }

    /// All users that no request runs for go; how many there were.
    pub fn evict_all(&mut self) -> usize {
        self.scheduler.cache_mut().evict_all()
    }
}

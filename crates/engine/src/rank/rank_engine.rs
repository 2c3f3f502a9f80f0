//! The engine: a scheduler and an executor, one step after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_cache::users::{CachedSpan, UserCacheCounts, UserKey};
use terrace_tiers::{GuardedTier, TierExecutor, Wait, Wake};

use super::loaded_model::LoadedModel;
use super::rank_error::RankError;
use super::rank_executor::RankExecutor;
use super::rank_job::{JobId, RankJob};
use super::rank_output::RankOutput;
use super::rank_plan::RankPlan;
use super::rank_scheduler::{Ended, RankScheduler, SchedulerLimits};
use super::rank_trace::RankTrace;
use super::reloaded::{ModelChange, Reloaded};
use super::removals::{Removal, RemovalId, Removed};
use super::user_tiers::UserTierCounts;
use crate::error::Error;
use crate::generate::engine::Rest;
use crate::setup::kv_tiers::TierReading;

pub struct RankEngine {
    scheduler: RankScheduler,
    executor: Box<dyn RankExecutor>,
    /// Where there are tiers below the host.
    tiers: Option<Box<dyn TierExecutor>>,
    guarded: Vec<Arc<GuardedTier>>,
    /// Somebody else waits for the tiers.
    is_woken: bool,
    began: Instant,
    trace: Option<RankTrace>,
    stats: RankStats,
}

/// The levels below host memory, the fastest first, and who works there.
pub struct RankTiers {
    pub guarded: Vec<Arc<GuardedTier>>,
    pub executor: Box<dyn TierExecutor>,
}

/// What an engine has done since its start, and holds now.
#[derive(Clone, Debug, Default)]
pub struct RankStats {
    pub waiting: usize,
    pub running: usize,
    pub steps: u64,
    /// How long a device was at work on them.
    pub device_us: u64,
    pub requests: u64,
    pub failures: u64,
    /// Of histories: found on the device, on the host, and below, and computed.
    pub device_tokens: u64,
    pub host_tokens: u64,
    pub lower_tokens: u64,
    pub computed_tokens: u64,
    pub scored_candidates: u64,
    pub retrieved_items: u64,
    pub unknown_ids: u64,
    pub cache: UserCacheCounts,
    pub tier_pages: UserTierCounts,
    /// Of the embedding tables: rises with each version that is loaded.
    pub generation: u32,
    pub users: usize,
    pub free_pages: usize,
    pub pages: usize,
    pub free_host_pages: usize,
    pub host_pages: usize,
    pub tiers: Vec<TierReading>,
}

/// What has ended with a step.
#[derive(Default)]
pub struct RankEvents {
    pub jobs: Vec<Ended>,
    pub removals: Vec<(RemovalId, Removed)>,
}

/// How often copies to the host are asked about while nothing else is to do.
const MOVES_POLLED_US: u64 = 200;

impl RankEngine {
    pub fn new(
        limits: SchedulerLimits,
        executor: Box<dyn RankExecutor>,
        tiers: Option<RankTiers>,
    ) -> Self {
        let stats = RankStats {
            pages: limits.cache.device_pages,
            host_pages: limits.cache.host_pages,
            ..RankStats::default()
        };
        let (guarded, tiers) = match tiers {
            Some(RankTiers { guarded, executor }) => (guarded, Some(executor)),
            None => (Vec::new(), None),
        };
        let listed = guarded.iter().map(|tier| tier.listed()).collect();
        RankEngine {
            scheduler: RankScheduler::new(limits, listed),
            executor,
            tiers,
            guarded,
            is_woken: false,
            began: Instant::now(),
            trace: None,
            stats,
        }
    }

    /// From now on a step does not wait for the lower tiers; `wake` is called when one has done
    /// something.
    pub fn wake_by(&mut self, wake: Wake) {
        if let Some(tiers) = &mut self.tiers {
            tiers.wake_by(wake);
            self.is_woken = true;
        }
    }

    pub(super) fn trace_to(&mut self, trace: RankTrace) -> Result<(), Error> {
        self.trace = Some(trace);
        self.executor.time_layers()
    }

    pub fn add(&mut self, job: RankJob) -> Result<JobId, RankError> {
        self.scheduler.set_now(self.now_us());
        self.scheduler.add(job)
    }

    pub fn cancel(&mut self, id: JobId) {
        self.scheduler.cancel(id);
    }

    /// Another checkpoint takes over. There must be no jobs.
    pub fn replace(
        &mut self,
        loaded: LoadedModel,
        change: ModelChange,
        generation: u32,
    ) -> Result<Reloaded, Error> {
        self.scheduler.set_now(self.now_us());
        self.executor.replace(loaded)?;
        let to_rewarm = match change {
            ModelChange::Layers => self.scheduler.replace_layers(generation),
            ModelChange::None | ModelChange::Tables => {
                self.scheduler.replace_tables(generation);
                Vec::new()
            }
        };
        Ok(Reloaded { change, generation, to_rewarm })
    }

    /// Whether no request is under way.
    pub fn has_no_jobs(&self) -> bool {
        self.scheduler.jobs().is_empty()
    }

    /// All of a user, or of everybody, goes from every level.
    pub fn remove(&mut self, removal: Removal) -> RemovalId {
        self.scheduler.remove(removal)
    }

    /// All that is cached is copied to the lower tiers, as far as they take it.
    pub fn begin_flush(&mut self) {
        self.scheduler.begin_flush();
    }

    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// How long nothing is to be done after a step that did nothing, unless something happens.
    pub(super) fn rest(&self) -> Rest {
        let now_us = self.now_us();
        let moves = (!self.scheduler.cache().is_settled()).then_some(now_us + MOVES_POLLED_US);
        let deadline = self.scheduler.next_deadline_us().into_iter().chain(moves).min();
        deadline.map_or(Rest::UntilWoken, |at| {
            Rest::For(Duration::from_micros(at.saturating_sub(now_us) + 1))
        })
    }

    /// Computes one step; what ended with it, and whether anything was done.
    pub fn step(&mut self) -> (RankEvents, bool) {
        self.scheduler.set_now(self.now_us());
        let mut background = RankPlan::default();
        let mut has_stepped = self.take_arrivals();
        has_stepped |= self.take_tier_results(&mut background);
        let (mut plan, mut jobs) = self.scheduler.plan();
        plan.tier_work.extend(background.tier_work);
        has_stepped |= !plan.is_empty();
        if let Some(trace) = self.trace.as_mut().filter(|_| !plan.is_empty()) {
            trace.planned(&plan);
        }
        if let Some(tiers) = &mut self.tiers {
            plan.tier_work.drain(..).for_each(|work| tiers.start(work));
        }
        match self.run(&plan) {
            Ok(ended) => jobs.extend(ended),
            Err(error) => {
                tracing::error!(%error, "a step of the ranking engine has failed");
                self.trace.iter_mut().for_each(RankTrace::lost);
                jobs.extend(self.scheduler.failed(&plan, &error.to_string()));
            }
        }
        for (_, result) in &jobs {
            self.count(result);
        }
        let removals = self.scheduler.take_removed();
        // Behind what is removed jobs may wait.
        has_stepped |= !jobs.is_empty() || !removals.is_empty();
        (RankEvents { jobs, removals }, has_stepped)
    }

    fn run(&mut self, plan: &RankPlan) -> Result<Vec<Ended>, Error> {
        self.executor.start_moves(&plan.demotions)?;
        if plan.chunks.is_empty() && plan.promotions.is_empty() {
            // A history that is cached already needs no step.
            return Ok(self.scheduler.computed(plan, Vec::new()));
        }
        self.stats.steps += 1;
        let results = self.executor.run(plan, self.scheduler.jobs())?;
        self.stats.device_us += self.executor.device_us();
        if let Some(trace) = &mut self.trace {
            trace.computed(plan, self.executor.layer_times());
        }
        self.scheduler.set_now(self.now_us());
        Ok(self.scheduler.computed(plan, results))
    }

    fn take_arrivals(&mut self) -> bool {
        match self.executor.arrived() {
            Ok(arrived) => {
                for id in &arrived {
                    self.scheduler.arrived(*id);
                    self.trace.iter_mut().for_each(|trace| trace.arrived(*id));
                }
                !arrived.is_empty()
            }
            Err(error) => {
                tracing::error!(%error, "copies of the ranking engine are lost");
                self.scheduler.failed(&RankPlan::default(), &error.to_string());
                true
            }
        }
    }

    fn take_tier_results(&mut self, plan: &mut RankPlan) -> bool {
        let Some(tiers) = &mut self.tiers else { return false };
        let waits = !self.is_woken && self.scheduler.only_waits_for_tiers();
        let done = tiers.done(if waits { Wait::ForOne } else { Wait::No });
        for done in &done {
            self.scheduler.tier_done(done, plan);
            self.trace.iter_mut().for_each(|trace| trace.done(done));
        }
        !done.is_empty()
    }

    fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    fn count(&mut self, result: &Result<RankOutput, RankError>) {
        let stats = &mut self.stats;
        stats.requests += 1;
        match result {
            Ok(output) => {
                let RankOutput { cached_tokens, host_tokens, lower_tokens, .. } = *output;
                stats.device_tokens += (cached_tokens - host_tokens - lower_tokens) as u64;
                stats.host_tokens += host_tokens as u64;
                stats.lower_tokens += lower_tokens as u64;
                stats.computed_tokens += (output.history_tokens - cached_tokens) as u64;
                stats.scored_candidates += output.candidates().len() as u64;
                stats.retrieved_items += output.found.len() as u64;
                stats.unknown_ids += output.unknown_ids as u64;
            }
            Err(_) => stats.failures += 1,
        }
    }

    pub fn stats(&self) -> RankStats {
        let cache = self.scheduler.cache();
        RankStats {
            waiting: self.scheduler.waiting(),
            running: self.scheduler.running(),
            cache: cache.counts(),
            tier_pages: self.scheduler.tier_counts(),
            generation: self.scheduler.generation(),
            users: cache.user_count(),
            free_pages: cache.free_device_pages(),
            free_host_pages: cache.free_host_pages(),
            tiers: self.guarded.iter().map(|tier| TierReading::of(tier)).collect(),
            ..self.stats.clone()
        }
    }

    /// What is cached of a user.
    pub fn span(&self, user: &UserKey) -> CachedSpan {
        self.scheduler.cache().span(user)
    }

    /// The ids of what is cached of a user.
    pub fn ids(&self, user: &UserKey) -> Vec<i64> {
        self.scheduler.cache().ids(user).to_vec()
    }

    /// A tenant's users of whom something is cached, the most recently used first.
    pub fn users(&self, tenant: &str, most: usize) -> Vec<(UserKey, CachedSpan)> {
        let cache = self.scheduler.cache();
        let users = cache.users().rev().filter(|user| *user.tenant == *tenant).take(most);
        users.map(|user| (user.clone(), cache.span(user))).collect()
    }

    /// Copies a user's pages to the host that no other level has; how many tokens begin to move.
    pub fn offload(&mut self, user: &UserKey) -> Result<usize, Error> {
        let Some((begun, tokens)) = self.scheduler.offload(user) else { return Ok(0) };
        // After an error nothing moves any more.
        let started = self.executor.start_moves(&[begun]);
        started.inspect_err(|_| drop(self.scheduler.failed(&RankPlan::default(), "")))?;
        Ok(tokens)
    }

    /// The device's copy of a user goes, and with it what no other level has.
    pub fn evict_from_device(&mut self, user: &UserKey) {
        self.scheduler.evict_from_device(user);
    }

    /// Panics unless the books agree.
    pub fn check(&self) {
        self.scheduler.check();
    }
}

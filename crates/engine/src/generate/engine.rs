//! The engine: requests in, steps, events out.
//!
//! While the device works on one step, the next one is planned and started, if the executor can
//! do that; tokens are looked at when their step has finished.
//!
//! It owns everything and runs on one thread; [`EngineHandle`](crate::EngineHandle) is how other
//! threads reach it. It decides nothing about order (the scheduler does) and computes nothing
//! (the executor does).

mod handles;
mod sessions;
mod traces;

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_cache::policy::Placement;
use terrace_cache::{KvSpace, StoreSpace, TokenId};
use terrace_model::DynamicRope;
use terrace_tiers::{HandleExecutor, TierExecutor, Wait, Wake};

use crate::error::Error;
use crate::generate::engine_config::EngineConfig;
use crate::generate::engine_stats::EngineStats;
use crate::generate::executor::{Executor, NoToken, Sampled, SampledToken, StepOutput};
use crate::generate::kv_handle::KvHandle;
use crate::generate::limits::Limits;
use crate::generate::past::Past;
use crate::generate::recent_responses::RecentResponses;
use crate::generate::replay;
use crate::generate::request::{Request, RequestId};
use crate::generate::scheduler::{Rank, Scheduler};
use crate::generate::seq_id::SeqId;
use crate::generate::seq_memory::SeqMemory;
use crate::generate::seq_policy::SeqPolicy;
use crate::generate::sequence::{NewSequence, PromptReport, Sequence, Sequences};
use crate::generate::step_plan::{CachedPrompt, StepPlan};
use crate::generate::steps_under_way::{LostSteps, StepsUnderWay};
use crate::generate::token_event::{Failure, FinishReason, TokenEvent, TokenLogprobs};
use crate::trace::EngineTrace;

pub use traces::Positions;

pub struct Engine {
    under_way: StepsUnderWay,
    /// Where there are tiers below the store.
    tiers: Option<Box<dyn TierExecutor>>,
    trace: Option<EngineTrace>,
    /// Where what is kept by name has files.
    handles: Option<Box<dyn HandleExecutor>>,
    recent: RecentResponses,
    /// Somebody else waits for the lower tiers and for files.
    is_woken: bool,
    began: Instant,
    scheduler: Scheduler,
    seqs: Sequences,
    limits: Arc<Limits>,
    /// Pages of generated tokens are not taken for a prompt's.
    distinguishes_row_kinds: bool,
    dynamic_rope: Option<DynamicRope>,
    next_request: u64,
    steps: u64,
    generated_tokens: u64,
    /// Whether the last step did something, or has something under way.
    has_stepped: bool,
}

/// How long an engine has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    UntilWoken,
    For(Duration),
}

/// What a step or a cancellation reports, in order.
pub type Events = Vec<(RequestId, TokenEvent)>;

impl Engine {
    pub fn new(executor: Box<dyn Executor>, config: EngineConfig) -> Result<Self, Error> {
        config.check()?;
        let limits = Arc::new(Limits::new(&config, executor.gives_embeddings()));
        let rule = config.tiers.placement;
        let space = KvSpace::new(&config.kv_groups, config.pages, config.prefix_seed, rule);
        let store = StoreSpace::new(config.store_pages, rule);
        Ok(Engine {
            distinguishes_row_kinds: executor.distinguishes_row_kinds(),
            dynamic_rope: config.dynamic_rope,
            under_way: StepsUnderWay::new(executor),
            tiers: None,
            trace: None,
            handles: None,
            recent: RecentResponses::default(),
            is_woken: false,
            began: Instant::now(),
            scheduler: Scheduler::new(config.scheduler, space, store, config.tiers),
            seqs: Sequences::default(),
            limits,
            next_request: 0,
            steps: 0,
            generated_tokens: 0,
            has_stepped: true,
        })
    }

    /// As [`new`](Self::new), with tiers below the store: as many as the configuration names.
    pub fn with_tiers(
        executor: Box<dyn Executor>,
        tiers: Box<dyn TierExecutor>,
        config: EngineConfig,
    ) -> Result<Self, Error> {
        let mut engine = Engine::new(executor, config)?;
        engine.tiers = Some(tiers);
        Ok(engine)
    }

    /// From now on, what it does is written down.
    pub(crate) fn trace_to(&mut self, trace: EngineTrace) {
        self.trace = Some(trace);
    }

    /// Puts a request into the queue, or says why it can never be served.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, Error> {
        self.check_request(&request)?;
        let id = RequestId(self.next_request);
        self.enqueue(id, Arc::new(request), None)?;
        Ok(id)
    }

    /// Lets free pages be taken in a random order, as after a long service.
    pub fn shuffle_pages(&mut self, seed: u64) {
        self.scheduler.shuffle_pages(seed);
    }

    /// Ends a request and frees all it holds. The events end its unfinished choices; none if it
    /// has finished.
    pub fn cancel(&mut self, id: RequestId) -> Events {
        let of_request = |seq: &&Sequence| seq.request_id == id;
        let seqs: Vec<_> = self.seqs.iter().filter(of_request).map(|seq| seq.id).collect();
        let mut events = Vec::new();
        for seq in seqs {
            self.finish(seq, FinishReason::Cancelled, &mut events);
        }
        events
    }

    /// Ends one output of a request; the others go on. Before the first token, outputs are not
    /// yet apart and nothing happens, unless there is only one.
    pub fn cancel_choice(&mut self, id: RequestId, choice: usize) -> Events {
        let alone = |seq: &&Sequence| seq.request_id == id && seq.choices == (choice..choice + 1);
        let seq = self.seqs.iter().find(alone).map(Sequence::id);
        let mut events = Vec::new();
        if let Some(seq) = seq {
            self.finish(seq, FinishReason::Cancelled, &mut events);
        }
        events
    }

    /// Starts as many steps as may be under way, waits for the oldest one, and returns what came
    /// of it. An executor's error ends the sequences of all steps under way; the others go on.
    pub fn step(&mut self) -> Events {
        let now_ms = self.began.elapsed().as_millis() as u64;
        self.step_at(now_ms)
    }

    /// As [`step`](Self::step), at a time in milliseconds that never goes back.
    pub fn step_at(&mut self, now_ms: u64) -> Events {
        self.scheduler.set_now(now_ms);
        let mut events = Vec::new();
        let arrived = self.take_arrivals(Wait::No);
        self.take_tier_results(Wait::No);
        self.take_handle_work(Wait::No);
        let started = arrived.and_then(|()| self.start_steps());
        let finished = started.and_then(|()| match self.under_way.is_empty() {
            true if self.scheduler.has_moves() => self.take_arrivals(Wait::ForOne).map(|()| None),
            true => {
                self.wait_for_others();
                Ok(None)
            }
            false => self.under_way.finish(),
        });
        match finished {
            Ok(Some((plan, output))) => {
                self.trace.iter_mut().for_each(EngineTrace::finished);
                self.apply(&plan, output, &mut events);
            }
            Ok(None) => {}
            Err(lost) => self.fail(&lost, &mut events),
        }
        self.end_failed(&mut events);
        events
    }

    /// No step is under way and nothing moves: somebody waits for tiers, files or the time.
    fn wait_for_others(&mut self) {
        let has_tier_work = self.scheduler.has_tier_work();
        let waits = has_tier_work || self.scheduler.has_handle_work();
        let has_deadline = self.scheduler.next_deadline_ms(&self.seqs).is_some();
        let is_stuck = !self.seqs.is_empty() && !waits && !has_deadline;
        assert!(!is_stuck || self.scheduler.has_failed(), "the first in rank always advances");
        if waits && !self.is_woken {
            match has_tier_work {
                true => self.take_tier_results(Wait::ForOne),
                false => self.take_handle_work(Wait::ForOne),
            }
        }
    }

    /// Nothing runs, nothing waits, and neither a step nor a move nor work of a tier or with a
    /// handle's file is under way.
    pub fn is_idle(&self) -> bool {
        self.seqs.is_empty()
            && self.under_way.is_empty()
            && !self.scheduler.has_moves()
            && !self.scheduler.has_tier_work()
            && self.scheduler.has_handles_at_rest()
    }

    /// From now on, what is known by content is copied to the lower tiers as far as they take it.
    pub(crate) fn begin_flush(&mut self) {
        if self.scheduler.flush() {
            tracing::info!("copying pages of keys and values to the lower tiers");
            self.has_stepped = true;
        }
    }

    /// Finishes all requests, and copies what is known by content to the lower tiers, so that the
    /// next engine finds it; the events of the requests.
    pub fn flush(&mut self) -> Events {
        self.begin_flush();
        let mut events = Vec::new();
        while self.has_stepped || !self.is_idle() {
            events.extend(self.step());
        }
        events
    }

    /// From now on a step does not wait for the lower tiers; `wake` is called when one has done
    /// something.
    pub(crate) fn wake_by(&mut self, wake: Wake) {
        if let Some(tiers) = &mut self.tiers {
            tiers.wake_by(Arc::clone(&wake));
            self.is_woken = true;
        }
        if let Some(handles) = &mut self.handles {
            handles.wake_by(wake);
            self.is_woken = true;
        }
    }

    /// How long to wait for a message before the next step, if that has nothing to do until then.
    pub(crate) fn rest(&self) -> Option<Rest> {
        if self.has_stepped {
            return None;
        }
        let deadline = self.scheduler.next_deadline_ms(&self.seqs).into_iter();
        let deadline = deadline.chain(self.scheduler.sessions().next_expiry_ms()).min();
        let now_ms = self.began.elapsed().as_millis() as u64;
        Some(match deadline {
            Some(deadline) => Rest::For(Duration::from_millis(deadline.saturating_sub(now_ms) + 1)),
            None => Rest::UntilWoken,
        })
    }

    pub fn stats(&self) -> EngineStats {
        let (space, counters) = (self.scheduler.space(), self.scheduler.counters());
        EngineStats {
            waiting: self.scheduler.waiting(),
            running: self.scheduler.running(),
            pages_total: space.total(),
            pages_free: space.available(),
            pages_cached: space.idle(),
            steps: self.steps,
            prompt_tokens: counters.prompt_tokens,
            generated_tokens: self.generated_tokens,
            prefix_tokens_asked: counters.prefix_tokens_asked,
            prefix_tokens_hit: counters.prefix_tokens_hit,
            preemptions: counters.preemptions,
            swaps_out: counters.swaps_out,
            swaps_in: counters.swaps_in,
            store_pages_total: self.scheduler.store().total(),
            store_pages_free: self.scheduler.store().available(),
            store_pages_cached: self.scheduler.store().idle(),
            pages_demoted: counters.pages_demoted,
            pages_promoted: counters.pages_promoted,
            tier_pages_written: counters.tier_pages_written,
            tier_pages_read: counters.tier_pages_read,
            sessions: self.scheduler.sessions().len(),
        }
    }

    /// Panics when a page, a sequence or a chunk is lost or doubled.
    pub fn check(&self) {
        self.scheduler.check(&self.seqs);
        self.under_way.check(&self.seqs);
        self.recent.check();
    }

    /// The id of the request to come.
    pub(crate) fn next_request(&self) -> u64 {
        self.next_request
    }

    pub(crate) fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.limits)
    }

    /// Puts a checked request into the queue, unless the device has no room for what its cache
    /// needs; `id` is larger than all before it.
    pub(crate) fn enqueue(
        &mut self,
        id: RequestId,
        request: Arc<Request>,
        past: Option<Arc<Past>>,
    ) -> Result<(), Error> {
        assert!(self.next_request <= id.0, "request ids only grow");
        if let Some(cache) = &request.cache {
            self.under_way.prepare(cache)?;
        }
        let memory = self.new_memory(&request, past.as_deref());
        let named = past.as_ref().and_then(|past| past.id);
        let goes_on_from = named.map(|id| self.scheduler.kept().named(id));
        self.insert(id, request, memory, past, goes_on_from);
        Ok(())
    }

    fn check_request(&self, request: &Request) -> Result<(), Error> {
        self.limits.check(request)?;
        self.limits.check_queue(self.scheduler.waiting())
    }

    fn insert(
        &mut self,
        request_id: RequestId,
        request: Arc<Request>,
        memory: SeqMemory,
        past: Option<Arc<Past>>,
        goes_on_from: Option<KvHandle>,
    ) {
        self.next_request = request_id.0 + 1;
        let aging_steps = self.scheduler.config().aging_steps;
        let sampling = request.sampling();
        let samples_on_device = sampling.is_some_and(|it| self.under_way.samples_on_device(it));
        let mut seq = Sequence::new(NewSequence {
            id: self.seqs.new_id(),
            request_id,
            rank: Rank::new(self.steps, request.priority, aging_steps, request_id),
            request,
            memory,
            goes_on_from,
            past,
            samples_on_device,
        });
        self.scheduler.enqueue(&mut seq);
        self.seqs.insert(seq);
    }

    fn take_arrivals(&mut self, wait: Wait) -> Result<(), LostSteps> {
        if self.scheduler.has_moves() {
            for id in self.under_way.arrived_moves(wait)? {
                self.scheduler.arrived(id, &mut self.seqs);
                self.trace.iter_mut().for_each(|trace| trace.arrived(id));
            }
        }
        Ok(())
    }

    fn take_tier_results(&mut self, wait: Wait) {
        if let (Some(tiers), true) = (&mut self.tiers, self.scheduler.has_tier_work()) {
            for done in tiers.done(wait) {
                self.scheduler.tier_done(&done, &mut self.seqs);
                self.trace.iter_mut().for_each(|trace| trace.done(&done));
            }
        }
    }

    fn start_steps(&mut self) -> Result<(), LostSteps> {
        self.has_stepped = !self.under_way.is_empty() || self.scheduler.has_moves();
        while self.under_way.has_room() {
            let plan = match self.under_way.is_empty() {
                true => self.scheduler.plan(&mut self.seqs),
                false => self.scheduler.plan_ahead(&mut self.seqs),
            };
            self.start_handle_work();
            let is_empty = plan.chunks.is_empty();
            if plan.is_empty() {
                break;
            }
            self.has_stepped = true;
            self.trace.iter_mut().for_each(|trace| trace.planned(&plan));
            // First: a CPU computes the step before it returns.
            for work in &plan.tier_work {
                let tiers = self.tiers.as_mut().expect("there are as many as are configured");
                tiers.start(work.clone());
            }
            self.steps += u64::from(!is_empty);
            self.under_way.start(plan, &self.seqs)?;
            if is_empty {
                break;
            }
        }
        Ok(())
    }

    fn fail(&mut self, lost: &LostSteps, events: &mut Events) {
        tracing::error!(error = %lost.error, steps = lost.plans.len(), "steps failed");
        self.trace.iter_mut().for_each(EngineTrace::lost);
        self.scheduler.lose_moves(&mut self.seqs);
        for chunk in lost.plans.iter().flat_map(|plan| &plan.chunks) {
            // It has ended before, or was in both steps.
            if self.seqs.get(chunk.seq).is_some() {
                self.finish(chunk.seq, FinishReason::Failed(Failure::Step), events);
            }
            self.scheduler.forget_left_by(chunk.seq);
        }
        for plan in &lost.plans {
            self.scheduler.lose_copies(&plan.copies, &mut self.seqs);
        }
    }

    /// Takes what a finished step computed and sampled; of sequences that have ended, nothing.
    fn apply(&mut self, plan: &StepPlan, output: StepOutput, events: &mut Events) {
        self.scheduler.complete(plan, &mut self.seqs);
        self.write_down(plan, &output.placements);
        for CachedPrompt { seq, tokens } in plan.cached.iter().copied() {
            let seq = self.seqs.get(seq);
            events.extend(seq.map(|seq| (seq.request_id, TokenEvent::CachedPrompt { tokens })));
        }
        for (id, embedding) in output.embeddings {
            if let Some(seq) = self.seqs.get(id) {
                events.push((seq.request_id, TokenEvent::Embedding(embedding)));
                self.end(id, FinishReason::Length, events);
            }
        }
        for Sampled { seq, outputs, prompt_logprobs } in output.sampled {
            if let (Some(logprobs), Some(_)) = (prompt_logprobs, self.seqs.get(seq)) {
                events.extend(report_prompt(self.seqs.get_mut(seq), logprobs));
            }
            for tokens in outputs {
                // It has ended, perhaps with the position before.
                if self.seqs.get(seq).is_none() {
                    break;
                }
                match tokens {
                    Ok(tokens) => self.push_all(seq, tokens, events),
                    Err(why) => self.end_without_token(seq, &why, events),
                }
            }
        }
    }

    /// Takes one token for each of a sequence's choices.
    fn push_all(&mut self, seq: SeqId, tokens: Vec<SampledToken>, events: &mut Events) {
        let choices = self.scheduler.fork(seq, &mut self.seqs);
        assert_eq!(choices.len(), tokens.len(), "one token for each choice of {seq:?}");
        for (choice, token) in choices.into_iter().zip(tokens) {
            self.push(choice, token, events);
        }
    }

    fn end_without_token(&mut self, seq: SeqId, why: &NoToken, events: &mut Events) {
        tracing::warn!(?seq, ?why, "no token could be sampled");
        let fault = self.seqs[seq].guide().and_then(|guide| guide.fault());
        let reason = match (fault, why) {
            (Some(fault), _) => FinishReason::Failed(Failure::BadGrammar(fault)),
            (None, NoToken::Forbidden) => FinishReason::Failed(Failure::Forbidden),
            (None, NoToken::Failed(_)) => FinishReason::Failed(Failure::Step),
        };
        self.finish(seq, reason, events);
    }

    /// Writes down what policies decided, where that is asked.
    fn write_down(&mut self, plan: &StepPlan, placements: &[(SeqId, Vec<Placement>)]) {
        for chunk in &plan.chunks {
            let Some(seq) = self.seqs.get(chunk.seq) else { continue };
            let Some(first_chunk) = seq.policy().map(SeqPolicy::first_chunk) else { continue };
            let reported = placements.iter().find(|(seq, _)| *seq == chunk.seq);
            let reported = reported.map(|(_, placements)| placements.as_slice());
            if let Some(log) = &mut self.seqs.get_mut(chunk.seq).memory.replay {
                replay::record(log, chunk, first_chunk, reported);
            }
        }
    }

    /// Adds a sampled token to its sequence, which may end with it.
    fn push(&mut self, id: SeqId, token: SampledToken, events: &mut Events) {
        let seq = self.seqs.get_mut(id);
        if seq.request.max_new_tokens() == 0 {
            // The prompt alone was asked for.
            return self.end(id, FinishReason::Length, events);
        }
        let choice = seq.choices.start;
        let SampledToken { id: token, logprobs } = token;
        seq.memory.tokens.push(token);
        self.generated_tokens += 1;
        events.push((seq.request_id, TokenEvent::Token { choice, id: token, logprobs }));
        let is_stop = |token: TokenId| {
            seq.request.sampling().is_some_and(|sampling| sampling.stop_ids.contains(&token))
        };
        if is_stop(token) {
            self.end(id, FinishReason::Stop(token), events);
        } else if seq.request.max_new_tokens() <= seq.output().len() {
            self.end(id, FinishReason::Length, events);
        }
    }

    /// Ends an output by itself, after its cache has been reported if that was asked.
    fn end(&mut self, id: SeqId, reason: FinishReason, events: &mut Events) {
        if self.seqs[id].request.sampling().is_some_and(|sampling| sampling.cache_trace) {
            match self.cache_trace(id, Positions::Yes) {
                Ok(trace) => {
                    let request = self.seqs[id].request_id;
                    events.push((request, TokenEvent::Cache(Box::new(trace))));
                }
                Err(error) => tracing::warn!(%error, "a cache could not be read"),
            }
        }
        self.finish(id, reason, events);
    }

    fn finish(&mut self, id: SeqId, reason: FinishReason, events: &mut Events) {
        let seq = self.scheduler.take_out(id, &mut self.seqs);
        self.scheduler.retain_pages(&seq, &self.seqs);
        for choice in seq.choices() {
            let log = seq.memory.replay.clone().map(Box::new);
            events.extend(log.map(|log| (seq.request_id, TokenEvent::Replay { choice, log })));
            events.push((seq.request_id, TokenEvent::Finished { choice, reason }));
        }
        self.leave(seq, reason);
    }
}

impl Drop for Engine {
    /// A block table that is dropped with pages is a lost one, here too.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.scheduler.release_all(&mut self.seqs);
        }
    }
}

/// Adds a chunk's part to the report; when it is whole, the event.
fn report_prompt(
    seq: &mut Sequence,
    logprobs: Vec<TokenLogprobs>,
) -> Option<(RequestId, TokenEvent)> {
    let (computed, following) = (seq.computed(), seq.prompt_len() - 1);
    let PromptReport::Gathering(gathered) = &mut seq.prompt_report else { return None };
    gathered.extend(logprobs);
    assert_eq!(gathered.len(), computed.min(following), "one report for each prompt token passed");
    if computed <= following {
        return None;
    }
    let report = std::iter::once(None).chain(gathered.drain(..).map(Some)).collect();
    seq.prompt_report = PromptReport::Sent;
    Some((seq.request_id, TokenEvent::Prompt(report)))
}

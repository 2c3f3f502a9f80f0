//! The engine: requests in, steps, events out.
//!
//! While the device works on one step, the next one is planned and started, if the executor can
//! do that; tokens are looked at when their step has finished.
//!
//! It owns everything and runs on one thread; [`EngineHandle`](crate::EngineHandle) is how other
//! threads reach it. It decides nothing about order (the scheduler does) and computes nothing
//! (the executor does).

use std::sync::Arc;

use terrace_cache::policy::Placement;
use terrace_cache::{KvSpace, PageId, PageKeys};
use terrace_model::DynamicRope;

use crate::error::Error;
use crate::generate::cache_trace::{
    CacheTrace, GroupTrace, PageTrace, kept_positions, rule_in_words,
};
use crate::generate::engine_config::EngineConfig;
use crate::generate::event::{FinishReason, TokenEvent, TokenLogprobs};
use crate::generate::executor::{Executor, NoToken, Sampled, SampledToken, StepOutput};
use crate::generate::limits::Limits;
use crate::generate::plan::{CachedPrompt, StepPlan};
use crate::generate::replay;
use crate::generate::request::{Request, RequestId};
use crate::generate::scheduler::{Rank, Scheduler};
use crate::generate::seq_cache::SeqPolicy;
use crate::generate::seq_id::SeqId;
use crate::generate::sequence::{PromptReport, SeqState, Sequence, Sequences};
use crate::generate::stats::EngineStats;
use crate::generate::steps_under_way::{LostSteps, StepsUnderWay};

pub struct Engine {
    under_way: StepsUnderWay,
    scheduler: Scheduler,
    seqs: Sequences,
    limits: Arc<Limits>,
    /// Pages of generated tokens are not taken for a prompt's.
    distinguishes_row_kinds: bool,
    dynamic_rope: Option<DynamicRope>,
    next_request: u64,
    steps: u64,
    generated_tokens: u64,
}

/// Whether to read which positions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    No,
    Yes,
}

/// What a step or a cancellation tells the outside, in order.
pub type Events = Vec<(RequestId, TokenEvent)>;

impl Engine {
    pub fn new(executor: Box<dyn Executor>, config: EngineConfig) -> Result<Self, Error> {
        config.check()?;
        let limits = Arc::new(Limits::new(&config, executor.gives_embeddings()));
        let space = KvSpace::new(&config.kv_groups, config.pages, config.prefix_seed);
        Ok(Engine {
            distinguishes_row_kinds: executor.distinguishes_row_kinds(),
            dynamic_rope: config.dynamic_rope,
            under_way: StepsUnderWay::new(executor),
            scheduler: Scheduler::new(config.scheduler, space),
            seqs: Sequences::default(),
            limits,
            next_request: 0,
            steps: 0,
            generated_tokens: 0,
        })
    }

    /// Puts a request into the queue, or says why it can never be served.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, Error> {
        self.limits.check(&request)?;
        self.limits.check_queue(self.scheduler.waiting())?;
        let id = RequestId(self.next_request);
        self.enqueue(id, Arc::new(request));
        Ok(id)
    }

    /// Lets free pages be taken in a random order, as after a long service: for measurements, which
    /// a new engine with its pages in a row would flatter.
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

    /// Ends one answer of a request; the others go on. Before the first token, answers are not
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
        let mut events = Vec::new();
        match self.start_steps().and_then(|()| self.under_way.finish()) {
            Ok(Some((plan, output))) => self.apply(&plan, output, &mut events),
            Ok(None) => assert!(self.seqs.is_empty(), "the first in rank always advances"),
            Err(lost) => self.fail(&lost, &mut events),
        }
        events
    }

    /// Nothing runs, nothing waits, and no step is under way.
    pub fn is_idle(&self) -> bool {
        self.seqs.is_empty() && self.under_way.is_empty()
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
            moves_out: counters.moves_out,
        }
    }

    /// What the cache of every sequence holds now, in the order in which they came. Positions are
    /// read out of the pages: ask for them only if somebody will look.
    pub fn cache_traces(&mut self, positions: Positions) -> Result<Vec<CacheTrace>, Error> {
        let ids: Vec<SeqId> = self.seqs.iter().map(Sequence::id).collect();
        ids.into_iter().map(|id| self.cache_trace(id, positions)).collect()
    }

    /// Panics when a page, a sequence or a chunk is lost or doubled.
    pub fn check(&self) {
        self.scheduler.check(&self.seqs);
        self.under_way.check(&self.seqs);
    }

    /// The id of the request to come.
    pub(crate) fn next_request(&self) -> u64 {
        self.next_request
    }

    pub(crate) fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.limits)
    }

    /// Puts a checked request into the queue; `id` is larger than all before it.
    pub(crate) fn enqueue(&mut self, id: RequestId, request: Arc<Request>) {
        assert!(self.next_request <= id.0, "request ids only grow");
        self.next_request = id.0 + 1;
        let aging_steps = self.scheduler.config().aging_steps;
        let rank = Rank::new(self.steps, request.priority, aging_steps, id);
        let kind = self.scheduler.kind(request.cache.as_deref());
        let rope = self.dynamic_rope.as_ref();
        let scaled_for = rope.map(|rope| rope.context_for(request.prompt.len()));
        let mut salt = request.cache_salt.clone();
        if let Some(tokens) = scaled_for {
            // What a page holds depends on how its tokens were scaled.
            salt = format!("{tokens} {salt}");
        }
        let mut keys = self.scheduler.space().new_keys(kind, &salt);
        if self.distinguishes_row_kinds {
            let tell_apart = |keys: PageKeys| keys.tell_apart(request.prompt.len());
            keys = keys.into_iter().map(tell_apart).collect();
        }
        let samples_on_device = self.under_way.samples_on_device(&request.sampling);
        let cache = (kind, keys, scaled_for.unwrap_or(usize::MAX));
        let seq = Sequence::new(self.seqs.new_id(), id, request, cache, rank, samples_on_device);
        self.scheduler.enqueue(&seq);
        self.seqs.insert(seq);
    }

    fn start_steps(&mut self) -> Result<(), LostSteps> {
        while self.under_way.has_room() {
            let plan = match self.under_way.is_empty() {
                true => self.scheduler.plan(&mut self.seqs),
                false => self.scheduler.plan_ahead(&mut self.seqs),
            };
            if plan.chunks.is_empty() {
                break;
            }
            self.steps += 1;
            self.under_way.start(plan, &self.seqs)?;
        }
        Ok(())
    }

    fn fail(&mut self, lost: &LostSteps, events: &mut Events) {
        tracing::error!(error = %lost.error, steps = lost.plans.len(), "steps failed");
        // Of pages that were to be saved or brought back nobody knows how far that got.
        let moved = |plan: &StepPlan| [&plan.moves_out[..], &plan.moves_in[..]].concat();
        let moved: Vec<_> = lost.plans.iter().flat_map(moved).map(|it| it.seq).collect();
        let computed = lost.plans.iter().flat_map(|plan| &plan.chunks).map(|chunk| chunk.seq);
        for seq in computed.chain(moved) {
            // It has ended before, or was in both steps.
            if self.seqs.get(seq).is_some() {
                self.finish(seq, FinishReason::Failed, events);
            }
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
        for (seq, embedding) in output.embeddings {
            let seq = self.seqs.get(seq);
            events.extend(seq.map(|seq| (seq.request_id, TokenEvent::Embedding(embedding))));
        }
        for Sampled { seq, tokens, prompt_logprobs } in output.sampled {
            if self.seqs.get(seq).is_none() {
                continue;
            }
            if let Some(logprobs) = prompt_logprobs {
                events.extend(report_prompt(self.seqs.get_mut(seq), logprobs));
            }
            let tokens = match tokens {
                Ok(tokens) if tokens.is_empty() => continue,
                Ok(tokens) => tokens,
                Err(why) => {
                    tracing::warn!(?seq, ?why, "no token could be chosen");
                    let fault = self.seqs[seq].guide().and_then(|guide| guide.fault());
                    let reason = match (fault, why) {
                        (Some(fault), _) => FinishReason::BadGrammar(fault),
                        (None, NoToken::Forbidden) => FinishReason::Forbidden,
                        (None, NoToken::Failed(_)) => FinishReason::Failed,
                    };
                    self.finish(seq, reason, events);
                    continue;
                }
            };
            let choices = self.scheduler.fork(seq, &mut self.seqs);
            assert_eq!(choices.len(), tokens.len(), "one token for each choice of {seq:?}");
            for (choice, token) in choices.into_iter().zip(tokens) {
                self.push(choice, token, events);
            }
        }
    }

    /// Writes down what policies decided, where that is asked.
    fn write_down(&mut self, plan: &StepPlan, placements: &[(SeqId, Vec<Placement>)]) {
        for chunk in &plan.chunks {
            let Some(seq) = self.seqs.get(chunk.seq) else { continue };
            let Some(first_chunk) = seq.policy().map(SeqPolicy::first_chunk) else { continue };
            let told = placements.iter().find(|(seq, _)| *seq == chunk.seq);
            let told = told.map(|(_, placements)| placements.as_slice());
            if let Some(log) = &mut self.seqs.get_mut(chunk.seq).replay {
                replay::record(log, chunk, first_chunk, told);
            }
        }
    }

    /// Adds a sampled token to its sequence, which may end with it.
    fn push(&mut self, id: SeqId, token: SampledToken, events: &mut Events) {
        let seq = self.seqs.get_mut(id);
        let sampling = &seq.request.sampling;
        if sampling.max_new_tokens == 0 {
            // The prompt alone was asked for.
            return self.end(id, FinishReason::Length, events);
        }
        let choice = seq.choices.start;
        let SampledToken { id: token, logprobs } = token;
        seq.tokens.push(token);
        self.generated_tokens += 1;
        events.push((seq.request_id, TokenEvent::Token { choice, id: token, logprobs }));
        if sampling.stop_ids.contains(&token) {
            self.end(id, FinishReason::Stop(token), events);
        } else if sampling.max_new_tokens <= seq.output().len() {
            self.end(id, FinishReason::Length, events);
        }
    }

    fn cache_trace(&mut self, id: SeqId, positions: Positions) -> Result<CacheTrace, Error> {
        let seq = &self.seqs[id];
        let space = self.scheduler.space();
        let mut groups = Vec::new();
        for (index, (group, table)) in space.groups(seq.kind).zip(&seq.tables).enumerate() {
            let page = |page: &PageId| PageTrace { page: page.0, holders: space.holders(*page) };
            let rule = seq.policy().map(|policy| &policy.rules[index]);
            let filled = rule.map_or(seq.computed, |rule| rule.slots.min(seq.computed));
            let kept = match positions {
                Positions::No => None,
                Positions::Yes => {
                    let pages = self.under_way.read_pages(table.pages())?;
                    Some(kept_positions(group, &pages, filled))
                }
            };
            groups.push(GroupTrace {
                layers: group.layers.clone(),
                keeps: rule_in_words(rule.map(|rule| &rule.rule)),
                page_slots: group.page_tokens(),
                pages: table.pages().iter().map(page).collect(),
                kept,
            });
        }
        let state = match seq.state {
            SeqState::Waiting => "waiting",
            SeqState::Running => "running",
            SeqState::Preempted => "preempted",
        };
        Ok(CacheTrace {
            request: seq.request_id.0,
            choice: seq.choices.start,
            state: state.into(),
            prompt_tokens: seq.prompt_len(),
            computed_tokens: seq.computed,
            groups,
        })
    }

    /// Ends an answer by itself, after its cache has been reported if that was asked.
    fn end(&mut self, id: SeqId, reason: FinishReason, events: &mut Events) {
        if self.seqs[id].request.sampling.cache_trace {
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
        let seq = self.scheduler.remove(id, &mut self.seqs);
        for choice in seq.choices() {
            let log = seq.replay.clone().map(Box::new);
            events.extend(log.map(|log| (seq.request_id, TokenEvent::Replay { choice, log })));
            events.push((seq.request_id, TokenEvent::Finished { choice, reason }));
        }
    }
}

/// Adds a chunk's part to the report; when it is whole, the event.
fn report_prompt(
    seq: &mut Sequence,
    logprobs: Vec<TokenLogprobs>,
) -> Option<(RequestId, TokenEvent)> {
    let (computed, following) = (seq.computed, seq.prompt_len() - 1);
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

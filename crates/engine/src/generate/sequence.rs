//! One output on its way: what it remembers, what is under way, and who waits for it.
//!
//! There is no prompt phase and no decode phase: `computed` chases `tokens().len()`, and a token
//! is sampled whenever it catches up. `started` runs before `computed` while steps are under way,
//! and may even be past the known tokens. A sequence stands for all outputs of its request until
//! the prompt is complete; then it is forked, and each output is a sequence of its own.
//! Invariant: only a running sequence has chunks under way, and only one that runs or fetches holds
//! pages of the device. What a preempted one had computed is computed again, unless that would
//! take the steps one by one: then its pages are swapped out, if the store has room.

use std::collections::BTreeMap;
use std::ops::{Index, Range};
use std::sync::Arc;

use terrace_cache::placement::Retention;
use terrace_cache::policy::Rule;
use terrace_cache::{BlockTable, KindId};
use terrace_kernels::{SlotRule, SlotScorer};

use crate::generate::kv_handle::KvHandle;
use crate::generate::past::Past;
use crate::generate::request::{Request, RequestId};
use crate::generate::scheduler::Rank;
use crate::generate::seq_id::SeqId;
use crate::generate::seq_memory::SeqMemory;
use crate::generate::seq_policy::{GroupRule, SeqPolicy};
use crate::generate::step_plan::Chunk;
use crate::generate::token_event::TokenLogprobs;
use crate::guidance::GuideState;
use terrace_cache::TokenId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeqState {
    /// Has not run yet.
    Waiting,
    /// Has pages and a row of the batch; what it remembers, or a prefix that is known, is on its
    /// way.
    Fetching,
    Running,
    /// Ran, lost its pages to a sequence that goes first, and waits.
    Preempted,
}

pub struct Sequence {
    pub(crate) id: SeqId,
    pub(crate) request_id: RequestId,
    pub(crate) request: Arc<Request>,
    pub(crate) choices: Range<usize>,
    pub(crate) memory: SeqMemory,
    /// What is kept there are its first tokens.
    pub(crate) goes_on_from: Option<KvHandle>,
    /// How these were computed.
    pub(crate) past: Option<Arc<Past>>,
    /// They are computed again: their file is gone.
    pub(crate) ignores_file: bool,
    pub(crate) started: usize,
    pub(crate) state: SeqState,
    pub(crate) rank: Rank,
    pub(crate) prompt_report: PromptReport,
    /// Shared with the steps under way, which read in it.
    pub(crate) guide: Option<Arc<GuideState>>,
    /// The executor can use its sampled tokens before the host has seen them.
    pub(crate) samples_on_device: bool,
    /// Only what is on the device is taken from its prefix: the lower levels took too long.
    pub(crate) ignores_lower: bool,
    /// Tokens of its prompt that were not computed.
    pub(crate) cached: CachedTokens,
}

/// Tokens of a prompt that are found and not computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachedTokens {
    /// So many by now.
    Counting(usize),
    /// So many; what a preempted sequence finds again is not counted.
    Counted(usize),
    Reported,
}

/// The log-probabilities of the prompt, gathered chunk by chunk.
pub(crate) enum PromptReport {
    NotAsked,
    /// Of the tokens after the first one, as far as they are computed.
    Gathering(Vec<TokenLogprobs>),
    Sent,
}

/// A request that has just arrived.
pub(crate) struct NewSequence {
    pub(crate) id: SeqId,
    pub(crate) request_id: RequestId,
    pub(crate) request: Arc<Request>,
    /// All tokens of its prompt are among what it remembers.
    pub(crate) memory: SeqMemory,
    pub(crate) goes_on_from: Option<KvHandle>,
    pub(crate) past: Option<Arc<Past>>,
    pub(crate) rank: Rank,
    pub(crate) samples_on_device: bool,
}

/// Of a step of one that computes a prefix from the front while pages come from the back. A GPU is
/// busy with so many rows, and not for long.
const MEETING_TOKENS: usize = 1024;

impl Sequence {
    pub(crate) fn new(new: NewSequence) -> Self {
        let NewSequence { id, request_id, request, memory, goes_on_from, past, .. } = new;
        let NewSequence { rank, samples_on_device, .. } = new;
        let prompt_logprobs = request.sampling().and_then(|sampling| sampling.prompt_logprobs);
        Sequence {
            id,
            request_id,
            choices: 0..request.choices(),
            started: memory.computed,
            memory,
            goes_on_from,
            past,
            ignores_file: false,
            state: SeqState::Waiting,
            rank,
            prompt_report: match prompt_logprobs {
                Some(_) => PromptReport::Gathering(Vec::new()),
                None => PromptReport::NotAsked,
            },
            guide: guide_of(&request),
            samples_on_device,
            ignores_lower: false,
            cached: CachedTokens::Counting(0),
            request,
        }
    }

    /// Another of the request's choices, with the same past.
    pub(crate) fn fork(&self, id: SeqId, choice: usize, memory: SeqMemory) -> Self {
        Sequence {
            id,
            request: Arc::clone(&self.request),
            choices: choice..choice + 1,
            memory,
            past: self.past.clone(),
            rank: self.rank.with_choice(choice),
            prompt_report: PromptReport::NotAsked,
            guide: guide_of(&self.request),
            ..*self
        }
    }

    pub fn id(&self) -> SeqId {
        self.id
    }

    pub fn request_id(&self) -> RequestId {
        self.request_id
    }

    pub fn request(&self) -> &Arc<Request> {
        &self.request
    }

    /// The request's outputs that this sequence stands for: one token is sampled for each.
    pub fn choices(&self) -> Range<usize> {
        self.choices.clone()
    }

    /// The prompt, and the output so far.
    pub fn tokens(&self) -> &[TokenId] {
        &self.memory.tokens
    }

    pub fn prompt_len(&self) -> usize {
        self.request.prompt.len()
    }

    /// The output so far.
    pub fn output(&self) -> &[TokenId] {
        &self.tokens()[self.prompt_len()..]
    }

    /// Tokens whose keys and values finished steps have put into their slots.
    pub fn computed(&self) -> usize {
        self.memory.computed
    }

    /// Tokens that steps, finished or under way, put into their slots. When all known ones are
    /// among them, a step under way samples the next one.
    pub fn started(&self) -> usize {
        self.started
    }

    /// Which tokens its cache keeps; `None` keeps all.
    pub fn policy(&self) -> Option<&SeqPolicy> {
        self.request.cache.as_ref()?.policy.as_ref()
    }

    /// What is done with a chunk's tokens in one of its groups of slots.
    pub(crate) fn slot_rule(&self, group: usize, chunk: &Chunk) -> SlotRule {
        let (past, live) = (chunk.start, chunk.tokens);
        let rule = match self.policy() {
            Some(policy) => {
                let GroupRule { slots, rule, .. } = &policy.rules[group];
                rule.slot_rule(*slots, past, live, policy.first_chunk())
            }
            // Where nothing leaves, tokens may be computed in any parts.
            None => {
                let slots = self.tables()[group].len();
                Rule::Keep.slot_rule(slots, past, live, slots)
            }
        };
        rule.expect("a plan's chunks are those of the policy")
    }

    /// Whether a chunk's rows are computed as those that see re-rotated keys. As with
    /// [`Sequence::is_single`] this follows from the request alone.
    pub(crate) fn sees_rerotated_keys(&self, chunk: &Chunk) -> bool {
        let seen = |group: &GroupRule| {
            let evicts = group.slots < chunk.end();
            group.rule.rerotates_keys() && (evicts || self.is_single(chunk))
        };
        self.policy().is_some_and(|policy| policy.rules.iter().any(seen))
    }

    /// Whether a chunk of one row is computed as generated tokens are. Devices round both ways
    /// differently, so over slots this follows from the request alone: what a step happens to cut
    /// off a first chunk is none.
    pub(crate) fn is_single(&self, chunk: &Chunk) -> bool {
        let follows_from_request = match self.request.cache.as_deref() {
            Some(cache) => match &cache.policy {
                Some(policy) => policy.first_chunk() <= chunk.start,
                None => self.memory.is_generated(chunk.start),
            },
            // Positions that follow the length want slots.
            None if self.memory.scaled_end < usize::MAX => self.memory.is_generated(chunk.start),
            None => true,
        };
        chunk.tokens == 1 && follows_from_request
    }

    /// Its policy's own score in one of its groups, where it has one.
    pub(crate) fn scorer(&self, group: usize) -> Option<&Arc<dyn SlotScorer>> {
        self.policy()?.rules[group].scorer.as_ref()
    }

    /// Whether its policy writes all its pages from the next chunk on, and they may be shared yet.
    pub(crate) fn must_own_pages(&self) -> bool {
        let begins = |policy: &SeqPolicy| policy.first_chunk() <= self.started;
        !self.memory.owns_pages && self.policy().is_some_and(begins)
    }

    /// First tokens that can be computed again, in steps of any length, and leave the same in their
    /// pages: those of a policy's first chunk, or those whose positions are scaled alike.
    pub(crate) fn repeatable_tokens(&self) -> usize {
        self.policy().map_or(self.memory.scaled_end, SeqPolicy::first_chunk)
    }

    /// Whether pages hold what only the same steps would compute again: scores, what a policy has
    /// kept, or tokens that have seen positions scaled otherwise.
    pub(crate) fn is_past_repeatable(&self) -> bool {
        self.repeatable_tokens() < self.started
    }

    /// Makes the keys of its tokens whose pages are known by content: other pages never are.
    pub(crate) fn extend_keys(&mut self) {
        let known = self.repeatable_tokens().min(self.memory.sealed_end);
        let memory = &mut self.memory;
        let known = known.min(memory.tokens.len());
        for keys in &mut memory.keys {
            keys.extend(&memory.tokens[..known]);
        }
    }

    /// How long its pages stay known.
    pub(crate) fn retention(&self, now_ms: u64) -> Retention {
        self.request.retention.claim(now_ms)
    }

    /// Tokens of a known prefix that it may compute now, because they have not come: some at a
    /// time, and none ahead, since others come meanwhile.
    pub(crate) fn computable(&self) -> usize {
        let page_tokens = self.tables().first().map(BlockTable::page_tokens);
        match (&self.memory.prefix_fetch, page_tokens) {
            (Some(fetch), Some(_)) if fetch.end() <= self.started => usize::MAX,
            (Some(_), Some(_)) if self.memory.computed < self.started => 0,
            (Some(fetch), Some(page_tokens)) => {
                fetch.computable(self.started, page_tokens).min(MEETING_TOKENS)
            }
            _ => usize::MAX,
        }
    }

    /// The kind of its cache.
    pub(crate) fn kind(&self) -> KindId {
        self.memory.kind
    }

    /// One block table for each kv group.
    pub fn tables(&self) -> &[BlockTable] {
        &self.memory.tables
    }

    /// Known tokens that no step has begun to compute; none while the next one is being sampled.
    pub fn remaining(&self) -> usize {
        self.tokens().len().saturating_sub(self.started)
    }

    pub fn state(&self) -> SeqState {
        self.state
    }

    /// Whether a step must report log-probabilities of the prompt tokens it passes.
    pub fn wants_prompt_logprobs(&self) -> bool {
        matches!(self.prompt_report, PromptReport::Gathering(_))
    }

    /// How far its grammar is read, if it has one.
    pub fn guide(&self) -> Option<&Arc<GuideState>> {
        self.guide.as_ref()
    }

    /// Whether a step can go on from a token that is still on the device.
    pub(crate) fn can_run_ahead(&self) -> bool {
        self.samples_on_device && self.choices.len() == 1 && !self.wants_prompt_logprobs()
    }

    /// Whether the next token is the last one, whichever it is. The context has room for
    /// `max_new_tokens`: see `Limits`.
    pub(crate) fn ends_with_next(&self) -> bool {
        self.request.max_new_tokens() <= self.output().len() + 1
    }
}

/// All sequences of an engine, in the order in which they came.
#[derive(Default)]
pub struct Sequences {
    map: BTreeMap<SeqId, Sequence>,
    next_id: u64,
}

impl Sequences {
    pub fn get(&self, id: SeqId) -> Option<&Sequence> {
        self.map.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Sequence> {
        self.map.values()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Sequence> {
        self.map.values_mut()
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }

    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// A name for a sequence to come.
    pub(crate) fn new_id(&mut self) -> SeqId {
        self.next_id += 1;
        SeqId(self.next_id)
    }

    pub(crate) fn insert(&mut self, seq: Sequence) {
        let earlier = self.map.insert(seq.id, seq);
        assert!(earlier.is_none(), "a sequence id was used twice");
    }

    pub(crate) fn remove(&mut self, id: SeqId) -> Sequence {
        self.map.remove(&id).expect("the sequence is there")
    }

    pub(crate) fn get_mut(&mut self, id: SeqId) -> &mut Sequence {
        self.map.get_mut(&id).expect("the sequence is there")
    }
}

/// The state of an output that has no token yet.
fn guide_of(request: &Request) -> Option<Arc<GuideState>> {
    let guide = request.sampling()?.guide.as_ref()?;
    Some(Arc::new(guide.start()))
}

impl Index<SeqId> for Sequences {
    type Output = Sequence;

    fn index(&self, id: SeqId) -> &Sequence {
        &self.map[&id]
    }
}

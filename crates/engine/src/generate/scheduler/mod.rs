//! Who runs when: a pure function of the sequences and the pages. No device, no clock.
//!
//! One rule: each running sequence has `started` chasing its tokens, under one budget of rows.
//!
//! - Sequences one token behind go first, so that no output waits for another's long prompt; what
//!   is left of the budget goes to the others in order of rank, in chunks.
//! - Waiting sequences are admitted strictly by rank; nobody overtakes because it is small. Who
//!   is admitted takes the pages of all its known tokens at once, and its rows: one for each
//!   output, so that a fork never finds the batch full.
//! - A running sequence takes slots as it grows. When pages run out, the running sequence of
//!   lowest rank is preempted: it loses its pages and waits. What it had sealed stays in the
//!   prefix index, so little is computed again unless the room was really needed.
//! - A sequence whose policy evicts takes all the slots it will ever have when it is admitted. Its
//!   chunks are its policy's: the first may be spread over steps, the others are computed whole.
//!   Until its first chunk ends it shares pages like others, then it makes them its own. Preempted
//!   after that, its pages are swapped out and come back as they were, or, where the store has no
//!   room, it is computed again in the same chunks. So is a sequence that has outgrown the length
//!   its prompt's positions are scaled for, where they follow the length; no chunk crosses that
//!   length.
//! - Moves of pages go on beside the steps. Who waits for its bytes is `Fetching`: it has its pages
//!   and its rows, and others run meanwhile. Pages that leave are free when their move has arrived;
//!   who needs them to grow misses steps until then, and nobody is admitted.
//! - Where nobody else runs, who waits for its last moves goes on behind them: each layer of its
//!   step begins when that layer's bytes are there. A step with rows of others waits for none.
//! - Behind a sliding window pages are let go as a sequence runs, and taken a step's worth at a
//!   time.
//! - A plan ahead is made while a step is under way. Sequences whose next token that step samples
//!   go on with it unseen if they can; the others miss the plan and go on when the token is here.
//!   Nobody is preempted for it: when room is short, the step under way is finished first.
//!
//! Progress: waiting sequences hold no pages, and one sequence alone always fits (see `Limits`),
//! so the running sequence of highest rank gets its slots, is never preempted, and advances in
//! every plan but those ahead that it misses, never two in a row. While the first in the queue
//! waits, nobody else is admitted, so it waits at most for all running ones to finish. Let W be
//! the most tokens a sequence may have, and D how many steps may be under way: a request that K
//! sequences outrank has finished after `(K + choices) * (max_seqs + 1) * W * D` steps.

mod admission;
mod config;
mod demotion;
mod handles;
mod kept;
mod promotion;
mod rank;
mod room;
mod sessions;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use terrace_cache::{
    BlockTable, KindId, KvSpace, LowerTiers, PageKey, StoreSpace, TierId, TierWork,
};

use crate::generate::handle_work_under_way::HandleWorkUnderWay;
use crate::generate::kv_handle::KvHandle;
use crate::generate::moves_under_way::MovesUnderWay;
use crate::generate::past::Origin;
use crate::generate::request::{Request, RequestId};
use crate::generate::seq_cache::SeqCache;
use crate::generate::seq_id::SeqId;
use crate::generate::seq_memory::SeqMemory;
use crate::generate::sequence::{CachedTokens, SeqState, Sequence, Sequences};
use crate::generate::sessions::{SessionLimits, Sessions};
use crate::generate::step_plan::{CachedPrompt, Chunk, ChunkInput, StepPlan};
use crate::generate::tier_config::TierConfig;
use crate::generate::tier_work_under_way::TierWorkUnderWay;

pub use config::SchedulerConfig;
use kept::Kept;
pub(crate) use kept::KeptMemories;
pub(crate) use rank::Rank;

pub(crate) struct Scheduler {
    config: SchedulerConfig,
    space: KvSpace,
    store: StoreSpace,
    lower: LowerTiers,
    tiers: TierConfig,
    moves: MovesUnderWay,
    work: TierWorkUnderWay,
    /// Look-ups for the next plan.
    look_ups: Vec<TierWork>,
    /// What the next plan reads from the lower tiers.
    wanted_reads: BTreeMap<TierId, Vec<PageKey>>,
    /// Content that is to be copied below at once.
    unwritten: VecDeque<PageKey>,
    now_ms: u64,
    kept: KeptMemories,
    handles: HandleWorkUnderWay,
    sessions: Sessions,
    /// Requests of sessions that came since the time was last set.
    session_requests: Vec<(RequestId, Arc<Request>)>,
    /// Those that fetch are among them.
    running: BTreeMap<Rank, SeqId>,
    waiting: BTreeMap<Rank, SeqId>,
    rows_taken: usize,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// Of requests that have begun to run.
    pub(crate) prompt_tokens: u64,
    pub(crate) prefix_tokens_asked: u64,
    pub(crate) prefix_tokens_hit: u64,
    pub(crate) preemptions: u64,
    pub(crate) swaps_out: u64,
    pub(crate) swaps_in: u64,
    /// Pages copied to the store ahead of need, and from there for a prefix.
    pub(crate) pages_demoted: u64,
    pub(crate) pages_promoted: u64,
    /// Pages of the lower tiers.
    pub(crate) tier_pages_written: u64,
    pub(crate) tier_pages_read: u64,
}

impl Scheduler {
    pub(crate) fn new(
        config: SchedulerConfig,
        space: KvSpace,
        store: StoreSpace,
        tiers: TierConfig,
    ) -> Self {
        let mut lower = LowerTiers::default();
        tiers.lower.iter().for_each(|listed| {
            lower.add(listed.clone());
        });
        Scheduler {
            config,
            space,
            store,
            lower,
            tiers: TierConfig { lower: Vec::new(), ..tiers },
            moves: MovesUnderWay::default(),
            work: TierWorkUnderWay::default(),
            look_ups: Vec::new(),
            wanted_reads: BTreeMap::new(),
            unwritten: VecDeque::new(),
            now_ms: 0,
            kept: KeptMemories::default(),
            handles: HandleWorkUnderWay::default(),
            sessions: Sessions::new(SessionLimits::ENGINE),
            session_requests: Vec::new(),
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            rows_taken: 0,
            counters: Counters::default(),
        }
    }

    pub(crate) fn config(&self) -> &SchedulerConfig {
        &self.config
    }

    pub(crate) fn space(&self) -> &KvSpace {
        &self.space
    }

    pub(crate) fn store(&self) -> &StoreSpace {
        &self.store
    }

    pub(crate) fn has_moves(&self) -> bool {
        !self.moves.is_empty()
    }

    /// Work of the lower tiers is under way.
    pub(crate) fn has_tier_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// Time goes on.
    pub(crate) fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.space.set_now(now_ms);
        self.store.set_now(now_ms);
        self.lower.set_now(now_ms);
        self.renew_sessions();
    }

    pub(crate) fn kept(&mut self) -> &mut KeptMemories {
        &mut self.kept
    }

    /// The kind of a sequence's cache.
    pub(crate) fn kind(&mut self, cache: Option<&SeqCache>) -> KindId {
        cache.map_or(KindId::FIRST, |cache| self.space.kind(&cache.groups))
    }

    pub(crate) fn shuffle_pages(&mut self, seed: u64) {
        self.space.shuffle_pages(seed);
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len() + self.handles.parked()
    }

    /// Puts a new sequence into the queue.
    pub(crate) fn enqueue(&mut self, seq: &mut Sequence) {
        if seq.request.retention.session.is_some() {
            self.session_requests.push((seq.request_id, Arc::clone(&seq.request)));
        }
        if self.park(seq) {
            return;
        }
        self.waiting.insert(seq.rank, seq.id);
        if !self.lower.unlisted().is_empty() {
            seq.extend_keys();
            self.look_up(seq);
        }
    }

    /// Decides the next step, while none is under way, and takes the slots it fills.
    pub(crate) fn plan(&mut self, seqs: &mut Sequences) -> StepPlan {
        // All room is made before any page is taken. So no page is freed and taken again in one
        // plan, and no copy writes a page that another one reads.
        let mut plan = self.begin_plan();
        self.carry_on_handles(seqs, &mut plan);
        self.release_passed(seqs);
        self.give_up_waiting(seqs);
        self.make_room(seqs, &mut plan);
        self.share_out(seqs, plan)
    }

    /// Decides the step after the one under way, or makes an empty plan when that one should be
    /// finished first: nobody can go on, or room must be made, or most outputs would miss it.
    pub(crate) fn plan_ahead(&mut self, seqs: &mut Sequences) -> StepPlan {
        // Who cannot run ahead misses every second step while others do. Where most cannot, all
        // wait for their tokens instead, and nobody misses a step.
        let running = self.running.values().map(|id| &seqs[*id]);
        let ahead = running.filter(|seq| seq.can_run_ahead()).count();
        self.release_passed(seqs);
        let mut plan = self.begin_plan();
        self.carry_on_handles(seqs, &mut plan);
        if 2 * ahead < self.running.len() || self.space.available() < self.cost_to_grow(seqs) {
            return plan;
        }
        self.share_out(seqs, plan)
    }

    fn begin_plan(&mut self) -> StepPlan {
        StepPlan { tier_work: std::mem::take(&mut self.look_ups), ..StepPlan::default() }
    }

    /// The plan was carried out: its tokens are computed, and full pages may be shared.
    pub(crate) fn complete(&mut self, plan: &StepPlan, seqs: &mut Sequences) {
        for chunk in &plan.chunks {
            if seqs.get(chunk.seq).is_none() {
                continue;
            }
            let seq = seqs.get_mut(chunk.seq);
            seq.memory.computed = chunk.end();
            seq.memory.prefix_fetch.take_if(|fetch| fetch.end() <= chunk.end());
            if !seq.is_past_repeatable() {
                let retention = seq.retention(self.now_ms);
                let memory = &mut seq.memory;
                // All these tokens are known: the last came at the latest with the step before.
                let computed = &memory.tokens[..memory.computed.min(memory.sealed_end)];
                let (tables, keys) = (&mut memory.tables, &mut memory.keys);
                let sealed = self.space.seal(tables, keys, computed, retention);
                self.sealed(sealed);
            }
        }
    }

    /// Makes each of the sequence's choices a sequence of its own, over the same pages. Returns
    /// one sequence for each choice, itself first.
    pub(crate) fn fork(&mut self, id: SeqId, seqs: &mut Sequences) -> Vec<SeqId> {
        let choices = seqs[id].choices();
        let is_ahead = seqs[id].computed() < seqs[id].started;
        assert!(choices.len() == 1 || !is_ahead, "{id:?} went on before it was forked");
        let first = seqs.get_mut(id);
        first.choices.end = choices.start + 1;
        first.memory.owns_pages &= choices.len() == 1;
        let mut ids = vec![id];
        for choice in choices.skip(1) {
            let fork_id = seqs.new_id();
            let memory = seqs[id].memory.fork(&mut self.space, &mut self.store);
            let fork = seqs[id].fork(fork_id, choice, memory);
            self.running.insert(fork.rank, fork_id);
            seqs.insert(fork);
            ids.push(fork_id);
        }
        ids
    }

    /// Takes a sequence out, wherever it is. It still holds what it remembers.
    pub(crate) fn take_out(&mut self, id: SeqId, seqs: &mut Sequences) -> Sequence {
        let seq = seqs.remove(id);
        if self.running.remove(&seq.rank).is_some() {
            self.rows_taken -= seq.choices.len();
        } else if !self.handles.unpark(id) {
            self.waiting.remove(&seq.rank);
        }
        seq
    }

    /// Frees what a sequence that was taken out remembers.
    pub(crate) fn release(&mut self, memory: &mut SeqMemory) {
        // A step under way may still read and write these pages. They can be taken again all the
        // same: whoever takes them uses them in a later step, and steps run in order. Moves hold
        // theirs until they have arrived.
        memory.forget(&mut self.space, &mut self.store);
    }

    /// Frees all that is remembered, by sequences and by handle.
    pub(crate) fn release_all(&mut self, seqs: &mut Sequences) {
        let kept = self.kept.iter_mut().map(|kept| &mut kept.memory);
        for memory in seqs.iter_mut().map(|seq| &mut seq.memory).chain(kept) {
            memory.forget(&mut self.space, &mut self.store);
        }
    }

    /// Keeps what a sequence that was taken out remembers. A step under way may still compute the
    /// last token that is known; whoever goes on from it does so in a later step.
    pub(crate) fn keep(&mut self, handle: KvHandle, seq: Sequence) {
        let Sequence { id, request, mut memory, started, past, .. } = seq;
        let known = memory.tokens.len();
        if memory.restored_by.is_some() {
            self.take_back(&mut memory);
        } else if known < started && !self.can_go_back(&memory, request.cache.as_deref()) {
            // A token that nobody has seen is in it, and may have pushed another one out.
            memory.forget(&mut self.space, &mut self.store);
        } else {
            memory.computed = started.min(known);
        }
        memory.truncate(&mut self.space);
        let (cache, cache_salt) = (request.cache.clone(), request.cache_salt.clone());
        let origin = past.map_or_else(Origin::default, |past| past.origin.clone());
        self.kept.insert(handle, Kept::new(memory, cache, cache_salt, origin, Some(id)));
    }

    /// Whether a cache holds all that it held a token before.
    fn can_go_back(&self, memory: &SeqMemory, cache: Option<&SeqCache>) -> bool {
        let is_whole = self.space.groups(memory.kind).all(|group| group.window.is_none());
        is_whole && cache.is_none_or(|cache| cache.policy.is_none())
    }

    /// Steps of a sequence are lost, and with them the last of what it left.
    pub(crate) fn forget_left_by(&mut self, seq: SeqId) {
        for kept in self.kept.iter_mut().filter(|kept| kept.left_by == Some(seq)) {
            kept.memory.forget(&mut self.space, &mut self.store);
        }
    }

    /// Panics unless every sequence is in one place and every page is accounted for.
    pub(crate) fn check(&self, seqs: &Sequences) {
        let memories = || seqs.iter().map(|seq| &seq.memory).chain(self.kept.memories());
        let tables = memories().flat_map(|memory| &memory.tables).flat_map(BlockTable::held);
        self.space.check(tables.chain(self.moves.held()));
        let stored = memories().flat_map(SeqMemory::stored).chain(self.moves.held_in_store());
        let stored = stored.chain(self.handles.held_in_store());
        self.store.check(stored.chain(self.work.held_in_store()));
        self.sessions.check();
        let placed = self.running.len() + self.waiting.len() + self.handles.parked();
        assert_eq!(placed, seqs.len(), "a sequence is lost");
        let mut rows = 0;
        for seq in seqs.iter() {
            let is_waiting = matches!(seq.state, SeqState::Waiting | SeqState::Preempted);
            let queue = if is_waiting { &self.waiting } else { &self.running };
            let is_queued = queue.get(&seq.rank) == Some(&seq.id);
            let is_parked = is_waiting && self.handles.is_parked(seq.id);
            assert!(is_queued != is_parked, "{:?} is misplaced", seq.id);
            assert!(seq.computed() < seq.tokens().len(), "{:?} has nothing to compute", seq.id);
            if is_waiting {
                let has_nothing_under_way = seq.started == seq.computed();
                let holds = seq.memory.is_on_device();
                assert!(!holds && has_nothing_under_way, "{:?} holds pages", seq.id);
                continue;
            }
            rows += seq.choices.len();
            let is_alone = self.space.cost_to_own(seq.tables()) == 0;
            assert!(is_alone || !seq.memory.owns_pages, "{:?} shares what it owns", seq.id);
            if seq.state == SeqState::Running {
                let evicts = seq.policy().is_some();
                let has_slots = seq.tables().iter().all(|table| seq.started <= table.len());
                assert!((evicts || has_slots) && seq.computed() <= seq.started, "slots missing");
                assert!(seq.memory.demoted.is_empty(), "{:?} runs without its pages", seq.id);
            }
        }
        assert_eq!(rows, self.rows_taken, "rows of the running sequences");
        assert!(rows <= self.config.max_seqs, "{rows} rows of {}", self.config.max_seqs);
    }

    /// Gives the running sequences and then those admitted their slots and chunks, as far as there
    /// is room now.
    fn share_out(&mut self, seqs: &mut Sequences, mut plan: StepPlan) -> StepPlan {
        self.promote(seqs, &mut plan);
        let running: Vec<SeqId> = self.running_now(seqs).map(Sequence::id).collect();
        let grown = self.grow(&running, seqs, &mut plan);
        let has_grown = grown.len() == running.len();
        let (budget, has_missed) = self.plan_running(grown, seqs, &mut plan);
        // Who waits for pages is not overtaken by newcomers.
        if has_grown && !has_missed {
            self.admit(seqs, &mut plan, budget);
        }
        if plan.chunks.is_empty() {
            self.follow_moves(seqs, &mut plan);
        }
        plan.chunks.sort_by_key(|chunk| {
            let seq = &seqs[chunk.seq];
            (seq.kind(), seq.sees_rerotated_keys(chunk), !seq.is_single(chunk))
        });
        for chunk in &plan.chunks {
            let seq = seqs.get_mut(chunk.seq);
            seq.started = chunk.end();
            if let (false, CachedTokens::Counting(tokens) | CachedTokens::Counted(tokens)) =
                (chunk.outputs.is_empty(), seq.cached)
            {
                seq.cached = CachedTokens::Reported;
                let cached = CachedPrompt { seq: seq.id, tokens };
                plan.cached.extend((0 < tokens).then_some(cached));
            }
        }
        self.space.copies_planned();
        self.demote(&mut plan);
        plan
    }

    /// Lets the pages go that no later token sees.
    fn release_passed(&mut self, seqs: &mut Sequences) {
        for id in self.running.values() {
            let seq = seqs.get_mut(*id);
            if seq.state == SeqState::Running && seq.policy().is_none() {
                let (kind, next) = (seq.kind(), seq.started);
                self.space.release_passed(kind, &mut seq.memory.tables, next);
            }
        }
    }

    /// Pages that all running sequences want for their next tokens. Of forks that share an open
    /// page, the last to grow writes in place; it is counted like the others.
    fn cost_to_grow(&self, seqs: &Sequences) -> usize {
        let growing = self.running_now(seqs).filter(|seq| seq.policy().is_none());
        let cost = |seq: &Sequence| {
            let slots = vec![seq.started + self.next_tokens(seq); seq.tables().len()];
            self.space.cost_to_grow(seq.tables(), &slots)
        };
        growing.map(cost).sum::<usize>() + self.cost_to_own(seqs)
    }

    /// Pages that those who evict want so that they share none.
    fn cost_to_own(&self, seqs: &Sequences) -> usize {
        let shared = self.running_now(seqs).filter(|seq| seq.must_own_pages());
        shared.map(|seq| self.space.cost_to_own(seq.tables())).sum()
    }

    /// Those that run and have their bytes, by rank.
    fn running_now<'a>(&'a self, seqs: &'a Sequences) -> impl Iterator<Item = &'a Sequence> {
        let running = self.running.values().map(|id| &seqs[*id]);
        running.filter(|seq| seq.state == SeqState::Running)
    }

    /// Tokens that the next step computes of a sequence at most.
    fn next_tokens(&self, seq: &Sequence) -> usize {
        runnable_tokens(seq).min(self.config.max_step_tokens)
    }

    /// Gives running sequences their slots; those that have them now. The others wait for pages
    /// that are on their way.
    fn grow(&mut self, running: &[SeqId], seqs: &mut Sequences, plan: &mut StepPlan) -> Vec<SeqId> {
        let mut grown = Vec::with_capacity(running.len());
        for id in running {
            let seq = seqs.get_mut(*id);
            let tokens = seq.started + self.next_tokens(seq);
            let slots = vec![tokens; seq.tables().len()];
            if seq.policy().is_none() {
                match self.space.grow(&mut seq.memory.tables, &slots) {
                    Ok(copies) => plan.copies.extend(copies),
                    Err(_) => continue,
                }
            }
            grown.push(*id);
        }
        grown
    }

    /// Shares the budget among sequences that have their slots; what is left, and whether one of
    /// them misses the step for want of pages.
    fn plan_running(
        &mut self,
        grown: Vec<SeqId>,
        seqs: &mut Sequences,
        plan: &mut StepPlan,
    ) -> (usize, bool) {
        let mut budget = self.config.max_step_tokens;
        let mut spare = self.space.available().saturating_sub(self.cost_to_own(seqs));
        let mut missed = false;
        let can_run = grown.into_iter().filter(|id| 0 < runnable_tokens(&seqs[*id]));
        let (next, behind): (Vec<SeqId>, Vec<SeqId>) =
            can_run.partition(|id| runnable_tokens(&seqs[*id]) == 1);
        for id in [next, behind].concat() {
            let seq = seqs.get_mut(id);
            let Some(chunk) = chunk_of(seq, budget) else { continue };
            // Who does not run now writes nothing, and need not own what it shares yet.
            if seq.must_own_pages() {
                let memory = &mut seq.memory;
                match self.space.own(&mut memory.tables, &mut spare) {
                    Ok(copies) => plan.copies.extend(copies),
                    Err(_) => {
                        missed = true;
                        continue;
                    }
                }
                memory.owns_pages = true;
            }
            budget -= chunk.tokens;
            plan.chunks.push(chunk);
        }
        (budget, missed)
    }
}

/// Tokens that could be in the next step: the known ones that are left, as far as their positions
/// are scaled alike, with a policy those of its chunk; or else the one that is being sampled.
fn runnable_tokens(seq: &Sequence) -> usize {
    let tokens = match (seq.remaining(), seq.policy()) {
        (0, _) => usize::from(seq.can_run_ahead() && !seq.ends_with_next()),
        (known, None) => known.min(seq.memory.scaled_end.saturating_sub(seq.started).max(1)),
        (_, Some(policy)) => policy.chunk_end(seq.started) - seq.started,
    };
    tokens.min(seq.computable())
}

/// What a sequence computes in the next step; nothing where its policy's chunk is too long for
/// what is left of the budget.
fn chunk_of(seq: &Sequence, budget: usize) -> Option<Chunk> {
    let runnable = runnable_tokens(seq);
    let can_spread = seq.policy().is_none_or(|policy| seq.started < policy.first_chunk());
    if budget == 0 || runnable == 0 || (!can_spread && budget < runnable) {
        return None;
    }
    let tokens = runnable.min(budget);
    let input = match seq.remaining() {
        0 => ChunkInput::SampledBefore,
        _ => ChunkInput::Known,
    };
    let end = seq.started + tokens;
    let outputs = if seq.remaining() <= tokens { end - 1..end } else { end..end };
    Some(Chunk { seq: seq.id, start: seq.started, tokens, input, outputs, adapter: None })
}

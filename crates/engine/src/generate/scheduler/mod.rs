//! Who runs when: a pure function of the sequences and the pages. No device, no clock.
//!
//! One rule: each running sequence has `started` chasing its tokens, under one budget of rows.
//!
//! - Sequences one token behind go first, so that no answer waits for another's long prompt; what
//!   is left of the budget goes to the others in order of rank, in chunks.
//! - Waiting sequences are admitted strictly by rank; nobody overtakes because it is small. Who
//!   is admitted takes the pages of all its known tokens at once, and its rows: one for each
//!   answer, so that a fork never finds the batch full.
//! - A running sequence takes slots as it grows. When pages run out, the running sequence of
//!   lowest rank is preempted: it loses its pages and waits. What it had sealed stays in the
//!   prefix index, so little is computed again unless the room was really needed.
//! - A sequence whose policy evicts takes all the slots it will ever have when it is admitted. Its
//!   chunks are its policy's: the first may be spread over steps, the others are computed whole.
//!   Until its first chunk ends it shares pages like others, then it makes them its own. Preempted
//!   after that, its pages are saved and come back as they were. So are those of a sequence that
//!   has outgrown the length its prompt's positions are scaled for, where they follow the
//!   length; no chunk crosses that length.
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

mod config;
mod rank;

use std::collections::BTreeMap;

use terrace_cache::{BlockTable, KindId, KvSpace, PageKeys};

use crate::generate::plan::{CachedPrompt, Chunk, ChunkInput, PageMove, StepPlan};
use crate::generate::seq_cache::SeqCache;
use crate::generate::seq_id::SeqId;
use crate::generate::sequence::{PromptReport, SeqState, Sequence, Sequences, guide_of};

pub use config::SchedulerConfig;
pub(crate) use rank::Rank;

pub(crate) struct Scheduler {
    config: SchedulerConfig,
    space: KvSpace,
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
    pub(crate) moves_out: u64,
}

impl Scheduler {
    pub(crate) fn new(config: SchedulerConfig, space: KvSpace) -> Self {
        Scheduler {
            config,
            space,
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
        self.waiting.len()
    }

    /// Puts a new sequence into the queue.
    pub(crate) fn enqueue(&mut self, seq: &Sequence) {
        self.waiting.insert(seq.rank, seq.id);
    }

    /// Decides the next step, while nothing is under way, and takes the slots it fills.
    pub(crate) fn plan(&mut self, seqs: &mut Sequences) -> StepPlan {
        // All room is made before any page is taken. So no page is freed and taken again in one
        // plan, and no copy writes a page that another one reads.
        let mut plan = StepPlan::default();
        self.make_room(seqs, &mut plan);
        self.share_out(seqs, plan)
    }

    /// Decides the step after the one under way, or makes an empty plan when that one should be
    /// finished first: nobody can go on, or room must be made, or most answers would miss it.
    pub(crate) fn plan_ahead(&mut self, seqs: &mut Sequences) -> StepPlan {
        // Who cannot run ahead misses every second step while others do. Where most cannot, all
        // wait for their tokens instead, and nobody misses a step.
        let running = self.running.values().map(|id| &seqs[*id]);
        let ahead = running.filter(|seq| seq.can_run_ahead()).count();
        if 2 * ahead < self.running.len() || self.space.available() < self.cost_to_grow(seqs) {
            return StepPlan::default();
        }
        self.share_out(seqs, StepPlan::default())
    }

    /// The plan was carried out: its tokens are computed, and full pages may be shared.
    pub(crate) fn complete(&mut self, plan: &StepPlan, seqs: &mut Sequences) {
        for chunk in &plan.chunks {
            if seqs.get(chunk.seq).is_none() {
                continue;
            }
            let seq = seqs.get_mut(chunk.seq);
            seq.computed = chunk.end();
            if !seq.is_past_repeatable() {
                // All these tokens are known: the last came at the latest with the step before.
                let computed = &seq.tokens[..seq.computed];
                self.space.seal(seq.kind, &mut seq.tables, &mut seq.keys, computed);
            }
        }
    }

    /// Makes each of the sequence's choices a sequence of its own, over the same pages. Returns
    /// one sequence for each choice, itself first.
    pub(crate) fn fork(&mut self, id: SeqId, seqs: &mut Sequences) -> Vec<SeqId> {
        let choices = seqs[id].choices();
        let is_ahead = seqs[id].computed < seqs[id].started;
        assert!(choices.len() == 1 || !is_ahead, "{id:?} went on before it was forked");
        let first = seqs.get_mut(id);
        first.choices.end = choices.start + 1;
        first.owns_pages &= choices.len() == 1;
        let mut ids = vec![id];
        for choice in choices.skip(1) {
            let fork_id = seqs.new_id();
            let first = &seqs[id];
            let fork = Sequence {
                id: fork_id,
                request_id: first.request_id,
                request: first.request.clone(),
                choices: choice..choice + 1,
                tokens: first.tokens.clone(),
                computed: first.computed,
                started: first.started,
                kind: first.kind,
                tables: self.space.fork(&first.tables),
                owns_pages: false,
                keys: first.keys.clone(),
                scaled_end: first.scaled_end,
                replay: first.replay.clone(),
                state: first.state,
                rank: first.rank.with_choice(choice),
                prompt_report: PromptReport::NotAsked,
                guide: guide_of(&first.request),
                samples_on_device: first.samples_on_device,
            };
            self.running.insert(fork.rank, fork_id);
            seqs.insert(fork);
            ids.push(fork_id);
        }
        ids
    }

    /// Takes a sequence out, wherever it is, and frees what it holds.
    pub(crate) fn remove(&mut self, id: SeqId, seqs: &mut Sequences) -> Sequence {
        let mut seq = seqs.remove(id);
        if self.running.remove(&seq.rank).is_some() {
            self.rows_taken -= seq.choices.len();
        } else {
            self.waiting.remove(&seq.rank);
        }
        // A step under way may still read and write these pages. They can be taken again all the
        // same: whoever takes them uses them in a later step, and steps run in order.
        self.space.release(std::mem::take(&mut seq.tables));
        seq
    }

    /// Panics unless every sequence is in one place and every page is accounted for.
    pub(crate) fn check(&self, seqs: &Sequences) {
        self.space.check(seqs.iter().flat_map(|seq| &seq.tables));
        assert_eq!(self.running.len() + self.waiting.len(), seqs.len(), "a sequence is lost");
        let mut rows = 0;
        for seq in seqs.iter() {
            let place = match seq.state {
                SeqState::Running => &self.running,
                SeqState::Waiting | SeqState::Preempted => &self.waiting,
            };
            assert_eq!(place.get(&seq.rank), Some(&seq.id), "{:?} is misplaced", seq.id);
            assert!(seq.computed < seq.tokens.len(), "{:?} has nothing to compute", seq.id);
            if seq.state == SeqState::Running {
                rows += seq.choices.len();
                let evicts = seq.policy().is_some();
                let has_slots = seq.tables.iter().all(|table| seq.started <= table.len());
                assert!((evicts || has_slots) && seq.computed <= seq.started, "slots missing");
                let is_alone = self.space.cost_to_own(&seq.tables) == 0;
                assert!(is_alone || !seq.owns_pages, "{:?} shares what it owns", seq.id);
            } else {
                let is_new = seq.started == 0 || seq.is_past_repeatable();
                assert!(seq.tables.is_empty() && is_new, "{:?} holds pages", seq.id);
            }
        }
        assert_eq!(rows, self.rows_taken, "rows of the running sequences");
        assert!(rows <= self.config.max_seqs, "{rows} rows of {}", self.config.max_seqs);
    }

    /// Gives the running sequences and then those admitted their slots and chunks. There is room
    /// for all that run.
    fn share_out(&mut self, seqs: &mut Sequences, mut plan: StepPlan) -> StepPlan {
        self.grow_running(seqs, &mut plan);
        let budget = self.plan_running(seqs, &mut plan);
        self.admit(seqs, &mut plan, budget);
        plan.chunks.sort_by_key(|chunk| {
            let seq = &seqs[chunk.seq];
            (seq.kind, seq.sees_rerotated_keys(chunk), !seq.is_single(chunk))
        });
        for chunk in &plan.chunks {
            seqs.get_mut(chunk.seq).started = chunk.end();
        }
        plan
    }

    /// Preempts from the lowest rank up until all that still run can grow.
    fn make_room(&mut self, seqs: &mut Sequences, plan: &mut StepPlan) {
        while self.space.available() < self.cost_to_grow(seqs) {
            let (rank, id) = self.running.pop_last().expect("pages are wanted by a running one");
            assert!(!self.running.is_empty(), "one sequence alone fits: see Limits");
            let seq = seqs.get_mut(id);
            self.rows_taken -= seq.choices.len();
            if seq.is_past_repeatable() {
                plan.moves_out.push(page_move(seq));
                self.counters.moves_out += 1;
            } else {
                (seq.computed, seq.started) = (0, 0);
                if let PromptReport::Gathering(gathered) = &mut seq.prompt_report {
                    gathered.clear();
                }
            }
            self.space.release(std::mem::take(&mut seq.tables));
            seq.owns_pages = false;
            seq.state = SeqState::Preempted;
            self.waiting.insert(rank, id);
            self.counters.preemptions += 1;
            plan.preempted.push(id);
        }
    }

    /// Pages that all running sequences want for their next tokens. Of forks that share an open
    /// page, the last to grow writes in place; it is counted like the others.
    fn cost_to_grow(&self, seqs: &Sequences) -> usize {
        let growing = self.running.values().map(|id| &seqs[*id]);
        let growing = growing.filter(|seq| seq.policy().is_none());
        let cost = |seq: &Sequence| {
            self.space.cost_to_grow(&seq.tables, seq.started + runnable_tokens(seq))
        };
        growing.map(cost).sum::<usize>() + self.cost_to_own(seqs)
    }

    /// Pages that those who evict want so that they share none.
    fn cost_to_own(&self, seqs: &Sequences) -> usize {
        let running = self.running.values().map(|id| &seqs[*id]);
        let shared = running.filter(|seq| seq.must_own_pages());
        shared.map(|seq| self.space.cost_to_own(&seq.tables)).sum()
    }

    fn grow_running(&mut self, seqs: &mut Sequences, plan: &mut StepPlan) {
        for id in self.running.values() {
            let seq = seqs.get_mut(*id);
            if seq.policy().is_none() {
                let tokens = seq.started + runnable_tokens(seq);
                let copies = self.space.grow(&mut seq.tables, tokens);
                plan.copies.extend(copies.expect("room was made for all"));
            }
        }
    }

    /// Shares the budget among running sequences; returns what is left.
    fn plan_running(&mut self, seqs: &mut Sequences, plan: &mut StepPlan) -> usize {
        let mut budget = self.config.max_step_tokens;
        let mut spare = self.space.available() - self.cost_to_own(seqs);
        let can_run = self.running.values().filter(|id| 0 < runnable_tokens(&seqs[**id]));
        let (next, behind): (Vec<SeqId>, Vec<SeqId>) =
            can_run.partition(|id| runnable_tokens(&seqs[**id]) == 1);
        for id in [next, behind].concat() {
            let seq = seqs.get_mut(id);
            let Some(chunk) = chunk_of(seq, budget) else { continue };
            budget -= chunk.tokens;
            plan.chunks.push(chunk);
            // Who does not run now writes nothing, and need not own what it shares yet.
            if seq.must_own_pages() {
                let copies = self.space.own(seq.kind, &mut seq.tables, &mut spare);
                plan.copies.extend(copies.expect("room was made for all"));
                seq.owns_pages = true;
            }
        }
        budget
    }

    /// Lets waiting sequences in, strictly by rank, while there are rows, rows and pages.
    fn admit(&mut self, seqs: &mut Sequences, plan: &mut StepPlan, mut budget: usize) {
        while 0 < budget {
            let Some(entry) = self.waiting.first_entry() else { break };
            // A page for each running sequence that grows stays free, or the newcomer would soon
            // be preempted for their growth and its work lost. (In the simulated histories this
            // avoids between a fifth and three fifths of all preemptions.)
            let growing = self.running.values().map(|id| &seqs[*id]);
            let headroom =
                growing.filter(|seq| seq.policy().is_none()).map(|seq| seq.tables.len()).sum();
            let seq = seqs.get_mut(*entry.get());
            let rows = self.rows_taken + seq.choices.len();
            if self.config.max_seqs < rows || !start(seq, &mut self.space, headroom) {
                break;
            }
            self.rows_taken = rows;
            self.counters.count_start(seq);
            if seq.state == SeqState::Waiting && 0 < seq.computed {
                plan.cached.push(CachedPrompt { seq: seq.id, tokens: seq.computed });
            }
            seq.state = SeqState::Running;
            let (rank, id) = entry.remove_entry();
            self.running.insert(rank, id);
            if seq.is_past_repeatable() {
                plan.moves_in.push(page_move(seq));
            }
            if let Some(chunk) = chunk_of(seq, budget) {
                budget -= chunk.tokens;
                plan.chunks.push(chunk);
            }
        }
    }
}

impl Counters {
    /// A sequence was admitted; what a preempted one finds again is not counted.
    fn count_start(&mut self, seq: &Sequence) {
        if seq.state != SeqState::Waiting {
            return;
        }
        self.prompt_tokens += seq.prompt_len() as u64;
        if !seq.wants_prompt_logprobs() {
            self.prefix_tokens_asked += seq.prompt_len() as u64;
            self.prefix_tokens_hit += seq.computed as u64;
        }
    }
}

/// Gives a waiting sequence its slots, as many as possible filled already. `false` when that would
/// leave less than `headroom` pages.
fn start(seq: &mut Sequence, space: &mut KvSpace, headroom: usize) -> bool {
    // Other pages are never known by content.
    let known = seq.repeatable_tokens().min(seq.tokens.len());
    for keys in &mut seq.keys {
        PageKeys::extend(keys, &seq.tokens[..known]);
    }
    let slots = seq.wanted_slots(seq.keys.len());
    let matched = space.longest_match(seq.kind, &seq.keys, reusable_tokens(seq));
    // Who evicts will need pages of its own for what it shares with others now.
    let to_own = if seq.policy().is_some() { space.used_by_others(&matched) } else { 0 };
    let cost = space.cost_to_open(seq.kind, &matched, &slots);
    if space.available() < cost + to_own + headroom {
        return false;
    }
    seq.tables = space.open(seq.kind, &matched, &slots).expect("the cost was counted");
    if !seq.is_past_repeatable() {
        (seq.computed, seq.started) = (matched.tokens, matched.tokens);
    }
    true
}

/// Tokens that may be found in pages: not the last one, which is computed for its logits, nor those
/// whose logits are asked. Of a policy's first chunk one at least is computed: pages are made one's
/// own when the next begins, and not in the step of the admission, whose copies could meet others.
fn reusable_tokens(seq: &Sequence) -> usize {
    if seq.wants_prompt_logprobs() || seq.is_past_repeatable() {
        return 0;
    }
    seq.repeatable_tokens().min(seq.tokens.len()) - 1
}

/// Tokens that could be in the next step: the known ones that are left, as far as their positions
/// are scaled alike, with a policy those of its chunk; or else the one that is being sampled.
fn runnable_tokens(seq: &Sequence) -> usize {
    match (seq.remaining(), seq.policy()) {
        (0, _) => usize::from(seq.can_run_ahead() && !seq.ends_with_next()),
        (known, None) => known.min(seq.scaled_end.saturating_sub(seq.started).max(1)),
        (_, Some(policy)) => policy.chunk_end(seq.started) - seq.started,
    }
}

/// What a sequence computes in the next step; nothing where its policy's chunk is too long for
/// what is left of the budget.
fn chunk_of(seq: &Sequence, budget: usize) -> Option<Chunk> {
    let runnable = runnable_tokens(seq);
    let can_spread = seq.policy().is_none_or(|policy| seq.started < policy.first_chunk());
    if budget == 0 || (!can_spread && budget < runnable) {
        return None;
    }
    let tokens = runnable.min(budget);
    let input = match seq.remaining() {
        0 => ChunkInput::SampledBefore,
        _ => ChunkInput::Known,
    };
    let sample = seq.remaining() <= tokens;
    Some(Chunk { seq: seq.id, start: seq.started, tokens, input, sample })
}

/// The pages that hold a token.
fn page_move(seq: &Sequence) -> PageMove {
    let used = |table: &BlockTable| {
        let pages = seq.computed.min(table.len()).div_ceil(table.page_tokens());
        table.pages()[..pages].to_vec()
    };
    PageMove { seq: seq.id, pages: seq.tables.iter().flat_map(used).collect() }
}

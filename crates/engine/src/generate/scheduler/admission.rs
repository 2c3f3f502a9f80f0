//! Who is let in from the queue, and what it finds of its tokens.

use terrace_cache::Direction;

use crate::generate::moves_under_way::MoveOwner;
use crate::generate::scheduler::{Counters, Scheduler, chunk_of};
use crate::generate::sequence::{CachedTokens, SeqState, Sequence, Sequences};
use crate::generate::step_plan::StepPlan;

impl Scheduler {
    /// Lets waiting sequences in, strictly by rank, while there are rows and pages.
    pub(super) fn admit(&mut self, seqs: &mut Sequences, plan: &mut StepPlan, mut budget: usize) {
        while 0 < budget {
            let Some(entry) = self.waiting.first_key_value() else { break };
            let (rank, id) = (*entry.0, *entry.1);
            // A page for each running sequence that grows stays free, or the newcomer would soon
            // be preempted for their growth and its work lost. (In the simulated histories this
            // avoids between a fifth and three fifths of all preemptions.)
            let growing = self.running.values().map(|id| &seqs[*id]);
            let headroom =
                growing.filter(|seq| seq.policy().is_none()).map(|seq| seq.tables().len()).sum();
            let seq = seqs.get_mut(id);
            if self.park(seq) {
                self.waiting.remove(&rank);
                continue;
            }
            let rows = self.rows_taken + seq.choices.len();
            if self.config.max_seqs < rows || !self.open(seq, headroom, plan) {
                break;
            }
            self.rows_taken = rows;
            self.waiting.remove(&rank);
            self.running.insert(rank, id);
            self.counters.count_start(seq);
            seq.state = SeqState::Running;
            if !seq.memory.demoted.is_empty() {
                self.fetch(seq, plan);
            } else if seq.memory.prefix_fetch.is_some() {
                self.promote_one(seq, plan);
            }
            if seq.state == SeqState::Running
                && let Some(chunk) = chunk_of(seq, budget)
            {
                budget -= chunk.tokens;
                plan.chunks.push(chunk);
            }
        }
    }

    /// Gives a waiting sequence its slots, as many as possible filled already. `false` when that
    /// would leave less than `headroom` pages now; what is kept by handle makes way for it.
    fn open(&mut self, seq: &mut Sequence, headroom: usize, plan: &mut StepPlan) -> bool {
        loop {
            // No copy may read a page that another one of the plan writes.
            if seq.goes_on_from.is_some() && !plan.copies.is_empty() {
                return false;
            }
            let has_adopted = self.adopt_kept(seq);
            let is_open = match seq.memory.tables.is_empty() {
                true => self.open_anew(seq, headroom),
                false => self.open_again(seq, headroom, plan),
            };
            if is_open {
                return true;
            }
            if has_adopted {
                self.forget(seq);
            }
            let room_will_come = !self.running.is_empty() || self.has_work_under_way();
            if !self.demote_kept(plan) && (room_will_come || !self.give_up_leaving_handle()) {
                return false;
            }
        }
    }

    /// For one that remembers something: pages for what is in the store, and slots for the rest.
    fn open_again(&mut self, seq: &mut Sequence, headroom: usize, plan: &mut StepPlan) -> bool {
        let slots = self.wanted_slots(seq, seq.memory.computed);
        let to_own = if seq.policy().is_some() { self.space.cost_to_own(seq.tables()) } else { 0 };
        let cost = seq.memory.demoted.len() + self.space.cost_to_grow(seq.tables(), &slots);
        if self.space.available() < cost + to_own + headroom
            || self.moves.are_leaving(seq.memory.stored())
        {
            return false;
        }
        let copies = self.space.grow(&mut seq.memory.tables, &slots);
        plan.copies.extend(copies.expect("the cost was counted"));
        if seq.memory.demoted.is_empty() && seq.must_own_pages() {
            let copies = self.space.own(&mut seq.memory.tables, &mut 0);
            plan.copies.extend(copies.expect("the cost was counted"));
            seq.memory.owns_pages = true;
        }
        true
    }

    fn open_anew(&mut self, seq: &mut Sequence, headroom: usize) -> bool {
        seq.extend_keys();
        let matched = self.find_prefix(seq);
        let slots = self.wanted_slots(seq, matched.tokens);
        // Who evicts will need pages of its own for what it shares with others now.
        let to_own = if seq.policy().is_some() { self.space.used_by_others(&matched) } else { 0 };
        let cost = self.space.cost_to_open(seq.kind(), &matched, &slots);
        if self.space.available() < cost + to_own + headroom {
            return false;
        }
        let tables = self.space.open(seq.kind(), &matched, &slots, seq.retention(self.now_ms));
        seq.memory.tables = tables.expect("the cost was counted");
        (seq.memory.computed, seq.started) = (matched.tokens, matched.tokens);
        if !matched.is_on_device() {
            self.begin_fetch(seq, &matched);
        }
        true
    }

    /// Slots in each group: where a policy evicts those of its last token, else those of the
    /// tokens it has now, behind a window of the next step's.
    fn wanted_slots(&self, seq: &Sequence, computed: usize) -> Vec<usize> {
        let (tokens, next) = (seq.tokens().len(), computed + self.config.max_step_tokens);
        let slots = |(index, window): (usize, Option<usize>)| match (seq.policy(), window) {
            (Some(policy), _) => policy.rules[index].slots.min(seq.request.most_tokens()),
            (None, Some(_)) => tokens.min(next),
            (None, None) => tokens,
        };
        let windows = self.space.groups(seq.kind()).map(|group| group.window);
        windows.enumerate().map(slots).collect()
    }

    /// A sequence that goes on from a handle, and has nothing computed, shares what is kept there.
    fn adopt_kept(&mut self, seq: &mut Sequence) -> bool {
        let Some(handle) = seq.goes_on_from else { return false };
        if !seq.memory.tables.is_empty() || seq.wants_prompt_logprobs() {
            return false;
        }
        // It may have been released; then all is computed again.
        let Ok(kept) = self.kept.find(handle) else { return false };
        if kept.memory.tables.is_empty() {
            return false;
        }
        seq.memory.adopt(kept.memory.fork(&mut self.space, &mut self.store));
        seq.started = seq.memory.computed;
        true
    }

    /// Begins to bring back what a sequence remembers.
    fn fetch(&mut self, seq: &mut Sequence, plan: &mut StepPlan) {
        let pages = seq.memory.restore(&mut self.space).expect("the pages were counted");
        self.space.share(&pages.iter().map(|(page, _)| *page).collect::<Vec<_>>());
        let owner = MoveOwner::Sequence(seq.id);
        let begun = self.moves.begin(owner, Direction::SwapIn, pages, &mut self.store);
        seq.state = SeqState::Fetching;
        seq.memory.restored_by = Some(begun.id);
        plan.moves.push(begun);
        self.counters.swaps_in += 1;
    }
}

impl Counters {
    /// A sequence was admitted; what a preempted one finds again is not counted.
    fn count_start(&mut self, seq: &mut Sequence) {
        if seq.state != SeqState::Waiting {
            return;
        }
        if !seq.ignores_lower {
            self.prompt_tokens += seq.prompt_len() as u64;
            if !seq.wants_prompt_logprobs() {
                self.prefix_tokens_asked += seq.prompt_len() as u64;
            }
        }
        let found = seq.memory.computed;
        self.count_cached(seq, found);
    }

    /// A sequence need not compute so many of its tokens.
    pub(super) fn count_cached(&mut self, seq: &mut Sequence, tokens: usize) {
        if let CachedTokens::Counting(counted) = &mut seq.cached {
            *counted += tokens;
            self.prefix_tokens_hit += tokens as u64;
        }
    }
}

/// Tokens that may be found in pages: not the last one, which is computed for its logits, nor those
/// whose logits are asked. Of a policy's first chunk one at least is computed: pages are made one's
/// own when the next begins, and not in the step of the admission, whose copies could meet others.
pub(super) fn reusable_tokens(seq: &Sequence) -> usize {
    if seq.wants_prompt_logprobs() {
        return 0;
    }
    seq.repeatable_tokens().min(seq.tokens().len()) - 1
}

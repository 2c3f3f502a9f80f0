//! Where pages come from when those that run need more: from what is kept by handle, then from the
//! running sequence of lowest rank.
//!
//! Pages that are swapped out stay with their move until it has arrived. So room is made at once or
//! promised: who needs a promised page misses steps until it is there.

use terrace_cache::{BlockTable, Direction, MoveId, PageCopy};

use crate::generate::moves_under_way::MoveOwner;
use crate::generate::replay;
use crate::generate::scheduler::Scheduler;
use crate::generate::seq_id::SeqId;
use crate::generate::seq_memory::{PagePairs, SeqMemory};
use crate::generate::sequence::{CachedTokens, PromptReport, SeqState, Sequence, Sequences};
use crate::generate::step_plan::StepPlan;

impl Scheduler {
    /// Preempts from the lowest rank up until all that still run can grow, at the latest when the
    /// moves under way have arrived.
    pub(super) fn make_room(&mut self, seqs: &mut Sequences, plan: &mut StepPlan) {
        while self.space.available() + self.moves.pages_to_come(&self.space)
            < self.cost_to_grow(seqs)
        {
            if self.demote_kept(plan) {
                continue;
            }
            if self.running.len() == 1 {
                if self.give_up_leaving_handle() {
                    continue;
                }
                // Alone it fits (see `Limits`), at the latest when nothing on its way shares its
                // pages.
                if self.has_moves() {
                    break;
                }
            }
            self.preempt_last(seqs, plan);
        }
    }

    /// A move has arrived.
    pub(crate) fn arrived(&mut self, id: MoveId, seqs: &mut Sequences) {
        let (arrived, owner) = self.moves.get(id);
        if let MoveOwner::Content(content) = owner {
            for ((_, stored), (key, claims)) in arrived.pages.iter().zip(content) {
                claims.iter().for_each(|claim| self.store.keep(*stored, *key, claim));
                self.store.set_clean(key, self.lower.has(key));
                self.space.set_clean(key, true);
            }
        }
        let (_, owner) = self.moves.end(id, &mut self.space, &mut self.store);
        match owner {
            MoveOwner::Sequence(seq) => {
                if let Some(seq) = restored(seq, id, seqs) {
                    seq.memory.arrived(&mut self.store);
                    seq.state = SeqState::Running;
                }
            }
            MoveOwner::Prefix(seq) if seqs.get(seq).is_some() => {
                if let Some(fetch) = &mut seqs.get_mut(seq).memory.prefix_fetch {
                    fetch.arrived(id);
                }
            }
            MoveOwner::Prefix(_) | MoveOwner::Handle(_) | MoveOwner::Content(_) => {}
        }
    }

    /// All moves under way are lost. What was on its way to the store is computed again; what was
    /// on its way from there is fetched again.
    pub(crate) fn lose_moves(&mut self, seqs: &mut Sequences) {
        for id in self.moves.ids() {
            let (lost, owner) = self.moves.end(id, &mut self.space, &mut self.store);
            match (lost.direction, owner) {
                (Direction::SwapIn, MoveOwner::Sequence(seq)) => {
                    if let Some(seq) = restored(seq, id, seqs).map(|seq| seq.id) {
                        self.suspend(seq, seqs);
                    }
                }
                (Direction::SwapIn, MoveOwner::Prefix(seq)) if seqs.get(seq).is_some() => {
                    if let Some(fetch) = &mut seqs.get_mut(seq).memory.prefix_fetch {
                        fetch.lost(id);
                    }
                }
                (Direction::SwapIn, _) | (_, MoveOwner::Content(_) | MoveOwner::Prefix(_)) => {}
                (Direction::SwapOut, MoveOwner::Sequence(id)) if seqs.get(id).is_some() => {
                    self.forget(seqs.get_mut(id));
                }
                (Direction::SwapOut, MoveOwner::Sequence(_)) => {}
                (Direction::SwapOut, MoveOwner::Handle(handle)) => {
                    if let Some(kept) = self.kept.get_mut(handle) {
                        kept.memory.forget(&mut self.space, &mut self.store);
                    }
                }
            }
        }
    }

    /// Copies are lost: who was to have one, and had no chunk beside it, begins anew.
    pub(crate) fn lose_copies(&mut self, copies: &[PageCopy], seqs: &mut Sequences) {
        let has_copy = |seq: &&Sequence| {
            let mut pages = seq.tables().iter().flat_map(BlockTable::held);
            pages.any(|page| copies.iter().any(|copy| copy.to == page))
        };
        let lost: Vec<SeqId> = seqs.iter().filter(has_copy).map(Sequence::id).collect();
        for id in lost {
            self.forget(seqs.get_mut(id));
            self.suspend(id, seqs);
        }
    }

    /// Lets all that a sequence has computed go: it begins anew.
    pub(super) fn forget(&mut self, seq: &mut Sequence) {
        seq.memory.forget(&mut self.space, &mut self.store);
        seq.memory.replay = replay::log_of(seq.request.cache.as_deref());
        seq.started = 0;
        if let PromptReport::Gathering(gathered) = &mut seq.prompt_report {
            gathered.clear();
        }
    }

    /// Takes what was kept and is the longest unused off the device; `false` if there is none.
    pub(super) fn demote_kept(&mut self, plan: &mut StepPlan) -> bool {
        let Some(handle) = self.kept.oldest(SeqMemory::is_on_device) else { return false };
        let mut kept = self.kept.remove(handle).expect("it was found");
        match self.swap_out(&mut kept.memory) {
            Some(pages) => self.begin_move(MoveOwner::Handle(handle), pages, plan),
            None => kept.memory.forget(&mut self.space, &mut self.store),
        }
        // A named one without pages is known elsewhere.
        if !kept.memory.tables.is_empty() || !self.kept.is_named(handle) {
            self.kept.insert_unused(handle, kept);
        }
        true
    }

    fn preempt_last(&mut self, seqs: &mut Sequences, plan: &mut StepPlan) {
        let (_, id) = self.running.last_key_value().expect("pages are wanted by a running one");
        let id = *id;
        assert!(1 < self.running.len(), "one sequence alone fits: see Limits");
        let seq = seqs.get_mut(id);
        match seq.memory.restored_by {
            Some(_) => {}
            None if !seq.is_past_repeatable() => self.forget(seq),
            None => match self.swap_out(&mut seq.memory) {
                Some(pages) => {
                    self.begin_move(MoveOwner::Sequence(id), pages, plan);
                    self.counters.swaps_out += 1;
                }
                None => self.forget(seq),
            },
        }
        self.suspend(id, seqs);
        self.counters.preemptions += 1;
        plan.preempted.push(id);
    }

    /// Puts a running sequence back into the queue. What it was fetching is still in the store.
    fn suspend(&mut self, id: SeqId, seqs: &mut Sequences) {
        let seq = seqs.get_mut(id);
        if seq.memory.restored_by.is_some() {
            self.take_back(&mut seq.memory);
        }
        seq.state = SeqState::Preempted;
        seq.cached = match seq.cached {
            CachedTokens::Counting(tokens) => CachedTokens::Counted(tokens),
            counted => counted,
        };
        self.take_off(seq);
    }

    /// Puts a sequence that has not computed anything back into the queue.
    pub(super) fn requeue(&mut self, seq: &mut Sequence) {
        if seq.state == SeqState::Fetching {
            seq.state = match seq.cached {
                CachedTokens::Counting(_) => SeqState::Waiting,
                _ => SeqState::Preempted,
            };
        }
        self.take_off(seq);
    }

    fn take_off(&mut self, seq: &Sequence) {
        self.rows_taken -= seq.choices.len();
        self.running.remove(&seq.rank);
        self.waiting.insert(seq.rank, seq.id);
    }

    /// Takes the pages away into which something is being fetched; it is still in the store.
    pub(super) fn take_back(&mut self, memory: &mut SeqMemory) {
        for page in memory.take_back() {
            self.space.release_pages(&[page]);
        }
    }

    /// Takes pages off the device. Where the store is full, what is kept there by handle makes way
    /// for it, the longest unused first.
    pub(super) fn swap_out(&mut self, memory: &mut SeqMemory) -> Option<PagePairs> {
        loop {
            if let Some(pages) = memory.demote(&mut self.space, &mut self.store) {
                return Some(pages);
            }
            self.forget_stored()?;
        }
    }

    /// Forgets what is kept in the store and is the longest unused.
    pub(super) fn forget_stored(&mut self) -> Option<()> {
        let handle = self.kept.oldest(|memory| memory.stored().next().is_some())?;
        let mut kept = self.kept.remove(handle).expect("it was found");
        kept.memory.forget(&mut self.space, &mut self.store);
        if !self.kept.is_named(handle) {
            self.kept.insert_unused(handle, kept);
        }
        Some(())
    }

    pub(super) fn begin_move(&mut self, owner: MoveOwner, pages: PagePairs, plan: &mut StepPlan) {
        let begun = self.moves.begin(owner, Direction::SwapOut, pages, &mut self.store);
        plan.moves.push(begun);
    }
}

/// The sequence, if it waits for this move.
fn restored(seq: SeqId, id: MoveId, seqs: &mut Sequences) -> Option<&mut Sequence> {
    let waits = seqs.get(seq).is_some_and(|seq| seq.memory.restored_by == Some(id));
    waits.then(|| seqs.get_mut(seq))
}

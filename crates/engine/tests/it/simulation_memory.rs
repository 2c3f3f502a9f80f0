//! The memory of the simulated device and of the store: for each slot, from which tokens it was
//! filled.
//!
//! Bytes of a move are read and written when it arrives, which is some time after it was started:
//! what is changed in between is found out. It panics when a step reads a slot that does not hold
//! what its sequence needs, or writes one that it also reads. A sequence whose policy evicts
//! rewrites all its slots in each of its chunks after the first, as scores are; so nobody else may
//! read them.

use std::collections::{HashMap, HashSet};

use terrace_cache::policy::Rule;
use terrace_cache::{
    BlockTable, Direction, KvGroup, MoveId, PageCopy, PageId, PageMove, StorePageId,
};
use terrace_engine::{Chunk, SeqId, SeqPolicy, Sequence, StepPlan};
use terrace_testkit::Rng;

use crate::simulation_executor::mix;

pub struct Memory {
    groups: Vec<KvGroup>,
    pages: Vec<PageContent>,
    store: Vec<PageContent>,
    /// The moves under way, and how often they will be asked for in vain.
    moves: Vec<(usize, PageMove)>,
    /// Those whose bytes a step has waited for, and that step; they are reported later.
    awaited: HashMap<MoveId, u64>,
    /// Steps begun so far.
    step: u64,
}

/// A move has arrived at the latest when it is asked for so often.
pub const LONGEST_MOVE: usize = 6;

#[derive(Clone, Default)]
pub struct PageContent {
    /// The group that wrote the page last.
    group: usize,
    slots: Vec<Slot>,
    copied_in_step: u64,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    content: Option<u64>,
    read_in_step: u64,
    reader: Option<SeqId>,
    written_in_step: u64,
}

impl PageContent {
    /// Whether the same tokens have filled both.
    pub fn holds_same(&self, other: &PageContent) -> bool {
        let tokens =
            |page: &PageContent| -> Vec<_> { page.slots.iter().map(|slot| slot.content).collect() };
        self.group == other.group && tokens(self) == tokens(other)
    }
}

impl Memory {
    pub fn new(pages: usize, store_pages: usize, groups: Vec<KvGroup>) -> Self {
        let pages = vec![PageContent::default(); pages];
        let store = vec![PageContent::default(); store_pages];
        Memory { groups, pages, store, moves: Vec::new(), awaited: HashMap::new(), step: 0 }
    }

    /// Makes the copies.
    pub fn begin_step(&mut self, plan: &StepPlan) {
        self.step += 1;
        self.copy(&plan.copies);
    }

    /// Begins moves that take a while.
    pub fn start_moves(&mut self, moves: &[&PageMove], rng: &mut Rng) {
        for asked in moves {
            self.spoil_target(asked);
            self.moves.push((rng.below(LONGEST_MOVE), (*asked).clone()));
        }
    }

    /// A step waits for these moves to the device: their bytes are there before it reads.
    pub fn wait_for(&mut self, moves: &[MoveId]) {
        for id in moves {
            let under_way = self.moves.iter().find(|(_, it)| it.id == *id);
            let (_, awaited) = under_way.expect("an awaited move is under way").clone();
            assert_eq!(awaited.direction, Direction::SwapIn, "nobody reads what leaves");
            self.carry_out(&awaited);
            self.awaited.insert(*id, self.step);
        }
    }

    /// The moves that have arrived by now; one at least where it must be.
    pub fn arrived(&mut self, must_arrive: bool, rng: &mut Rng) -> Vec<MoveId> {
        if must_arrive {
            let first = rng.below(self.moves.len());
            self.moves[first].0 = 0;
        }
        let (arrived, left) = self.moves.drain(..).partition(|(polls, _)| *polls == 0);
        self.moves = left;
        self.moves.iter_mut().for_each(|(polls, _)| *polls -= 1);
        for (_, it) in &arrived {
            // A step may have written these pages since.
            if self.awaited.remove(&it.id).is_none() {
                self.carry_out(it);
            }
        }
        arrived.into_iter().map(|(_, it): (usize, PageMove)| it.id).collect()
    }

    /// What a page of the store holds.
    pub fn stored(&self, page: StorePageId) -> &PageContent {
        &self.store[page.index()]
    }

    /// Bytes come into a page of the store, perhaps from another engine with other steps.
    pub fn fill_stored(&mut self, page: StorePageId, content: PageContent) {
        let fresh = |slot: &Slot| Slot { content: slot.content, ..Slot::default() };
        let slots = content.slots.iter().map(fresh).collect();
        self.store[page.index()] = PageContent { slots, copied_in_step: 0, ..content };
    }

    pub fn has_moves(&self) -> bool {
        !self.moves.is_empty()
    }

    /// What was on its way is lost with the `steps` begun last; an earlier one has waited for its
    /// own.
    pub fn lose_moves(&mut self, steps: usize) {
        let kept = self.step - steps as u64;
        for (_, lost) in std::mem::take(&mut self.moves) {
            let has_come = self.awaited.get(&lost.id).is_some_and(|step| *step <= kept);
            if !has_come {
                self.spoil_target(&lost);
            }
        }
        self.awaited.clear();
    }

    fn carry_out(&mut self, arrived: &PageMove) {
        for (page, stored) in &arrived.pages {
            let (page, stored) = (&mut self.pages[page.index()], &mut self.store[stored.index()]);
            match arrived.direction {
                Direction::SwapOut => *stored = page.clone(),
                Direction::SwapIn => {
                    *page = PageContent { copied_in_step: 0, ..stored.clone() };
                }
            }
        }
    }

    fn spoil_target(&mut self, lost: &PageMove) {
        for (page, stored) in &lost.pages {
            match lost.direction {
                Direction::SwapOut => self.store[stored.index()] = PageContent::default(),
                Direction::SwapIn => self.pages[page.index()] = PageContent::default(),
            }
        }
    }

    /// In reverse: the order must not matter.
    fn copy(&mut self, copies: &[PageCopy]) {
        let mut written = HashSet::new();
        for copy in copies.iter() {
            assert!(written.insert(copy.to), "{:?} is written twice", copy.to);
        }
        for copy in copies.iter().rev() {
            assert!(!written.contains(&copy.from), "{:?} is read and written", copy.from);
            let from = self.pages[copy.from.index()].clone();
            self.pages[copy.to.index()] = PageContent { copied_in_step: self.step, ..from };
        }
    }

    /// All that the sequence has kept of the tokens before `start`, and sees, must be where it
    /// looks for it.
    pub fn read(&mut self, seq: &Sequence, start: usize, hashes: &[u64]) {
        for (index, table) in seq.tables().iter().enumerate() {
            let group = self.group_of(seq, index);
            let first = match seq.policy() {
                Some(_) => 0,
                None => self.groups[index].first_visible(start),
            };
            let kept = kept(seq, index, hashes, start).into_iter().enumerate();
            for (slot, content) in kept.skip(first) {
                let page_tokens = self.groups[index].page_tokens();
                let page = table.pages()[slot / page_tokens].expect("what is seen is present");
                let page = &mut self.pages[page.index()];
                assert_eq!(page.group, group, "{:?} reads another group's page", seq.id());
                let found = &mut page.slots[slot % page_tokens];
                assert_eq!(found.content, Some(content), "{:?} in slot {slot}", seq.id());
                let alone = found.read_in_step != self.step || found.reader == Some(seq.id());
                found.reader = alone.then_some(seq.id());
                found.read_in_step = self.step;
            }
        }
    }

    /// Fills the chunk's slots, and where a policy evicts changes the others too.
    pub fn commit(&mut self, seq: &Sequence, chunk: &Chunk, hashes: &[u64]) {
        for (index, table) in seq.tables().iter().enumerate() {
            let rewrites = seq.policy().is_some_and(|it| it.first_chunk() <= chunk.start);
            let content = kept(seq, index, hashes, chunk.end());
            let first = if rewrites { 0 } else { chunk.start };
            for (slot, content) in content.into_iter().enumerate().skip(first) {
                self.write(seq, index, table, slot, content);
            }
        }
    }

    fn write(
        &mut self,
        seq: &Sequence,
        index: usize,
        table: &BlockTable,
        slot: usize,
        content: u64,
    ) {
        let (group, page_tokens) = (self.group_of(seq, index), self.groups[index].page_tokens());
        let id: PageId = table.pages()[slot / page_tokens].expect("what is written is present");
        assert_eq!(table.slot(slot), id.slot(slot % page_tokens, page_tokens));
        let page = &mut self.pages[id.index()];
        if page.group != group || page.slots.is_empty() {
            let was_used =
                |slot: &Slot| slot.read_in_step == self.step || slot.written_in_step == self.step;
            assert!(!page.slots.iter().any(was_used), "{id:?} is used by two groups");
            let slots = vec![Slot::default(); page_tokens];
            *page = PageContent { group, slots, copied_in_step: 0 };
        }
        let slot = &mut page.slots[slot % page_tokens];
        let own = seq.policy().is_some() && slot.reader == Some(seq.id());
        assert!(slot.read_in_step != self.step || own, "{id:?} is read and written");
        assert_ne!(slot.written_in_step, self.step, "{id:?} is written twice");
        slot.written_in_step = self.step;
        slot.content = Some(content);
    }

    /// Groups of caches that evict are others than those that do not.
    fn group_of(&self, seq: &Sequence, index: usize) -> usize {
        if seq.policy().is_some() { index + self.groups.len() } else { index }
    }

    /// Puts garbage into all that the `steps` begun last have filled or copied to.
    pub fn spoil_last(&mut self, steps: usize) {
        let kept = self.step - steps as u64;
        for page in &mut self.pages {
            let is_copy = kept < page.copied_in_step;
            for slot in &mut page.slots {
                if is_copy || kept < slot.written_in_step {
                    slot.content = None;
                }
            }
        }
    }
}

/// What each slot of a sequence holds when `tokens` of it are computed: a token's content, changed
/// once by every chunk since, the first left out.
fn kept(seq: &Sequence, group: usize, hashes: &[u64], tokens: usize) -> Vec<u64> {
    let Some(policy) = seq.policy() else { return hashes[1..=tokens].to_vec() };
    let first = policy.first_chunk().min(tokens);
    let mut slots = hashes[1..=first].to_vec();
    let mut end = first;
    while end < tokens {
        let start = end;
        end = policy.chunk_end(start);
        for position in start..end {
            let slot = slot_of(policy, group, position);
            slots.resize(slots.len().max(slot + 1), 0);
            slots[slot] = hashes[position + 1];
        }
        slots.iter_mut().for_each(|content| *content = mix(*content, end as u64));
    }
    assert_eq!(end, tokens, "{:?} ends inside a chunk", seq.id());
    slots
}

fn slot_of(policy: &SeqPolicy, group: usize, position: usize) -> usize {
    let rule = &policy.rules[group];
    match &rule.rule {
        Rule::Recent(recent) => recent.slot(position, rule.slots),
        other => panic!("the simulation does not know {other:?}"),
    }
}

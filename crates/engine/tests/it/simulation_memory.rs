//! The memory of the simulated device: for each slot, from which tokens it was filled.
//!
//! It panics when a step reads a slot that does not hold what its sequence needs, or writes one
//! that it also reads. A sequence whose policy evicts rewrites all its slots in each of its chunks
//! after the first, as scores are; so nobody else may read them.

use std::collections::{HashMap, HashSet};

use terrace_cache::policy::Rule;
use terrace_cache::{BlockTable, PageCopy, PageId};
use terrace_engine::{Chunk, PageMove, SeqId, SeqPolicy, Sequence, StepPlan};

use crate::simulation_executor::mix;

pub struct Memory {
    page_tokens: Vec<usize>,
    pages: Vec<PageContent>,
    saved: HashMap<SeqId, Vec<PageContent>>,
    /// Steps begun so far.
    step: u64,
}

#[derive(Clone, Default)]
struct PageContent {
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

impl Memory {
    pub fn new(pages: usize, page_tokens: Vec<usize>) -> Self {
        let pages = vec![PageContent::default(); pages];
        Memory { page_tokens, pages, saved: HashMap::new(), step: 0 }
    }

    /// Saves pages, makes the copies, and brings back what was saved.
    pub fn begin_step(&mut self, plan: &StepPlan) {
        self.step += 1;
        for PageMove { seq, pages } in &plan.moves_out {
            let content = pages.iter().map(|page| self.pages[page.index()].clone());
            let earlier = self.saved.insert(*seq, content.collect());
            assert!(earlier.is_none(), "{seq:?} is saved twice");
        }
        self.copy(&plan.copies);
        for PageMove { seq, pages } in &plan.moves_in {
            let saved = self.saved.remove(seq).unwrap_or_else(|| panic!("{seq:?} is not saved"));
            assert_eq!(saved.len(), pages.len(), "pages of {seq:?}");
            for (page, content) in pages.iter().zip(saved) {
                let content = PageContent { copied_in_step: self.step, ..content };
                self.pages[page.index()] = content;
            }
        }
    }

    /// What is saved of those that are gone is of no use.
    pub fn forget_saved(&mut self, is_there: impl Fn(SeqId) -> bool) {
        self.saved.retain(|seq, _| is_there(*seq));
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

    /// All that the sequence has kept of the tokens before `start` must be where it looks for it.
    pub fn read(&mut self, seq: &Sequence, start: usize, hashes: &[u64]) {
        for (index, table) in seq.tables().iter().enumerate() {
            let group = self.group_of(seq, index);
            for (slot, content) in kept(seq, index, hashes, start).into_iter().enumerate() {
                let page_tokens = self.page_tokens[index];
                let page = &mut self.pages[table.pages()[slot / page_tokens].index()];
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
        let (group, page_tokens) = (self.group_of(seq, index), self.page_tokens[index]);
        let id: PageId = table.pages()[slot / page_tokens];
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
        if seq.policy().is_some() { index + self.page_tokens.len() } else { index }
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

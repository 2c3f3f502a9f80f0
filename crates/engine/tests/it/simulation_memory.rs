//! The memory of the simulated device: for each slot, from which tokens it was filled.
//!
//! It panics when a step reads a slot that does not hold what its sequence needs, or writes one
//! that it also reads.

use std::collections::HashSet;

use terrace_cache::{PageCopy, PageId};
use terrace_engine::{Chunk, Sequence};

pub struct Memory {
    page_tokens: Vec<usize>,
    pages: Vec<PageContent>,
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
    written_in_step: u64,
}

impl Memory {
    pub fn new(pages: usize, page_tokens: Vec<usize>) -> Self {
        Memory { page_tokens, pages: vec![PageContent::default(); pages], step: 0 }
    }

    /// Makes the copies, in reverse: their order must not matter.
    pub fn begin_step(&mut self, copies: &[PageCopy]) {
        self.step += 1;
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

    /// Every token before `start` must be where its sequence looks for it.
    pub fn read(&mut self, seq: &Sequence, start: usize, hashes: &[u64]) {
        for (group, table) in seq.tables().iter().enumerate() {
            for (position, content) in hashes[1..=start].iter().enumerate() {
                let page_tokens = self.page_tokens[group];
                let page = &mut self.pages[table.pages()[position / page_tokens].index()];
                assert_eq!(page.group, group, "{:?} reads another group's page", seq.id());
                let slot = &mut page.slots[position % page_tokens];
                assert_eq!(slot.content, Some(*content), "{:?} at {position}", seq.id());
                slot.read_in_step = self.step;
            }
        }
    }

    /// Fills the chunk's slots.
    pub fn commit(&mut self, seq: &Sequence, chunk: &Chunk, hashes: &[u64]) {
        for (group, table) in seq.tables().iter().enumerate() {
            let page_tokens = self.page_tokens[group];
            for position in chunk.start..chunk.end() {
                let id: PageId = table.pages()[position / page_tokens];
                assert_eq!(table.slot(position), id.slot(position % page_tokens, page_tokens));
                let page = &mut self.pages[id.index()];
                if page.group != group || page.slots.is_empty() {
                    let was_used = |slot: &Slot| {
                        slot.read_in_step == self.step || slot.written_in_step == self.step
                    };
                    assert!(!page.slots.iter().any(was_used), "{id:?} is used by two groups");
                    let slots = vec![Slot::default(); page_tokens];
                    *page = PageContent { group, slots, copied_in_step: 0 };
                }
                let slot = &mut page.slots[position % page_tokens];
                assert_ne!(slot.read_in_step, self.step, "{id:?} is read and written");
                assert_ne!(slot.written_in_step, self.step, "{id:?} is written twice");
                slot.written_in_step = self.step;
                slot.content = Some(hashes[position + 1]);
            }
        }
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

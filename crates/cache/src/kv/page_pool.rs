//! Which pages are free, and how many hold each of the others.
//!
//! A holder is a block table, a move of the page, or the prefix index, which *keeps* a page for its
//! content. The pool never looks inside a page and does not know who its holders are.
//! Invariant: a page is free (no holder), used (held by a table or a move), or idle (kept, and held
//! by nobody else). Exactly one of them.

use terrace_kernels::random::SplitMix;

use crate::kv::PageId;
use crate::kv::idle_list::IdleList;

pub struct PagePool {
    free: Vec<PageId>,
    holders: Vec<u32>,
    kept: Vec<bool>,
    idle: IdleList,
}

impl PagePool {
    pub fn new(pages: usize) -> Self {
        let count = u32::try_from(pages).expect("page ids are 32 bits wide");
        PagePool {
            // Reversed, so that the lowest id is taken first.
            free: (0..count).rev().map(PageId).collect(),
            holders: vec![0; pages],
            kept: vec![false; pages],
            idle: IdleList::new(pages),
        }
    }

    /// Takes a free page, or `None` when an idle one must be forgotten first.
    pub fn take(&mut self) -> Option<PageId> {
        let page = self.free.pop()?;
        let holders = &mut self.holders[page.index()];
        assert_eq!(*holders, 0, "page {} was free and held", page.0);
        *holders = 1;
        Some(page)
    }

    /// Puts the free pages into a random order, as a long service leaves them.
    pub fn shuffle_free(&mut self, seed: u64) {
        let mut random = SplitMix::new(seed);
        for last in (1..self.free.len()).rev() {
            self.free.swap(last, random.below(last + 1));
        }
    }

    /// One more table holds the page.
    pub fn share(&mut self, page: PageId) {
        assert!(0 < self.holders(page), "page {} is shared but free", page.0);
        if self.idle.contains(page) {
            self.idle.remove(page);
        }
        self.holders[page.index()] += 1;
    }

    /// A table lets the page go.
    pub fn release(&mut self, page: PageId) {
        let holders = &mut self.holders[page.index()];
        assert!(u32::from(self.kept[page.index()]) < *holders, "page {} released twice", page.0);
        *holders -= 1;
        match (*holders, self.kept[page.index()]) {
            (0, _) => self.free.push(page),
            (1, true) => self.idle.push_newest(page),
            _ => {}
        }
    }

    /// The prefix index becomes a holder too, so that the content outlives its tables.
    pub fn keep(&mut self, page: PageId) {
        assert!(0 < self.holders(page), "page {} is kept but free", page.0);
        assert!(!self.kept[page.index()], "page {} is kept twice", page.0);
        self.kept[page.index()] = true;
        self.holders[page.index()] += 1;
    }

    /// The prefix index gives a page up to the table that holds it.
    pub fn give_up(&mut self, page: PageId) {
        assert_eq!((self.holders(page), self.kept[page.index()]), (2, true), "page {}", page.0);
        self.kept[page.index()] = false;
        self.holders[page.index()] = 1;
    }

    /// The prefix index lets an idle page go: it becomes free.
    pub fn forget(&mut self, page: PageId) {
        self.idle.remove(page);
        self.kept[page.index()] = false;
        self.holders[page.index()] = 0;
        self.free.push(page);
    }

    /// The idle page whose last user left first.
    pub fn oldest_idle(&self) -> Option<PageId> {
        self.idle.oldest()
    }

    pub fn holders(&self, page: PageId) -> u32 {
        self.holders[page.index()]
    }

    /// Holders besides the prefix index.
    pub fn users(&self, page: PageId) -> u32 {
        self.holders(page) - u32::from(self.kept[page.index()])
    }

    /// Whether several tables or moves hold the page.
    pub fn is_shared(&self, page: PageId) -> bool {
        1 < self.users(page)
    }

    pub fn is_idle(&self, page: PageId) -> bool {
        self.idle.contains(page)
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    pub fn idle(&self) -> usize {
        self.idle.len()
    }

    pub fn total(&self) -> usize {
        self.holders.len()
    }

    /// Panics when a page is lost or doubled.
    pub fn check(&self) {
        let mut listed_free = vec![false; self.total()];
        for page in &self.free {
            assert!(!listed_free[page.index()], "page {} is free twice", page.0);
            listed_free[page.index()] = true;
        }
        self.idle.check();
        for (index, &free) in listed_free.iter().enumerate() {
            let page = PageId(index as u32);
            let (holders, kept) = (self.holders[index], self.kept[index]);
            assert_eq!(free, holders == 0, "page {index} is free with {holders} holders");
            assert!(!(free && kept), "page {index} is free and kept");
            assert_eq!(self.is_idle(page), kept && holders == 1, "page {index} idle or used");
        }
    }
}

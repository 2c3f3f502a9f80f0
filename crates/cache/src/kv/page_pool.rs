//! Which pages of a level are free, and how many hold each of the others.
//!
//! A holder is a block table, a move of the page, or the prefix index, which *keeps* a page for its
//! content. The pool never looks inside a page and does not know who its holders are.
//! Invariant: a page is free (no holder), used (held by a table or a move), or idle (kept, and held
//! by nobody else). Exactly one of them. A kept page is *clean* while a level below has its content
//! too: it can be forgotten and nothing is lost.

use terrace_kernels::random::SplitMix;

use crate::kv::{PageId, PageNumber};
use crate::placement::{Claims, Placement, PlacementRule, Retention};

pub struct PagePool<P = PageId> {
    free: Vec<P>,
    holders: Vec<u32>,
    kept: Vec<bool>,
    clean: Vec<bool>,
    /// Idle pages that are clean.
    clean_idle: usize,
    /// Of kept pages, which goes first.
    order: Placement<P>,
}

impl<P: PageNumber> PagePool<P> {
    pub fn new(pages: usize, rule: PlacementRule) -> Self {
        PagePool {
            // Reversed, so that the lowest id is taken first.
            free: (0..pages).rev().map(P::from_index).collect(),
            holders: vec![0; pages],
            kept: vec![false; pages],
            clean: vec![false; pages],
            clean_idle: 0,
            order: Placement::new(rule, pages),
        }
    }

    /// Takes a free page, or `None` when an idle one must be forgotten first.
    pub fn take(&mut self) -> Option<P> {
        let page = self.free.pop()?;
        let holders = &mut self.holders[page.index()];
        assert_eq!(*holders, 0, "page {} was free and held", page.index());
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
    pub fn share(&mut self, page: P) {
        self.add_holder(page);
        if self.kept[page.index()] {
            self.order.hold(page);
        }
    }

    /// A move that reads the page holds it: no use that would make it stay longer.
    pub fn share_aside(&mut self, page: P) {
        self.add_holder(page);
        if self.kept[page.index()] {
            self.order.set_aside(page);
        }
    }

    /// A table or a move lets the page go.
    pub fn release(&mut self, page: P) {
        let (holders, kept) = (&mut self.holders[page.index()], self.kept[page.index()]);
        assert!(u32::from(kept) < *holders, "page {} released twice", page.index());
        *holders -= 1;
        match (*holders, kept) {
            (0, _) => self.free.push(page),
            (1, true) => {
                self.order.release(page);
                self.clean_idle += usize::from(self.clean[page.index()]);
            }
            _ => {}
        }
    }

    /// The prefix index becomes a holder too, so that the content outlives its tables. `content` is
    /// a hash of it.
    pub fn keep(&mut self, page: P, content: u64, retention: Retention) {
        assert!(0 < self.holders(page), "page {} is kept but free", page.index());
        assert!(!self.kept[page.index()], "page {} is kept twice", page.index());
        self.kept[page.index()] = true;
        self.holders[page.index()] += 1;
        self.order.add(page, content, retention);
        self.order.hold(page);
    }

    /// One more claim to a kept page.
    pub fn retain(&mut self, page: P, claim: Retention) {
        self.order.retain(page, claim);
    }

    /// A claim to a kept page is given up.
    pub fn withdraw(&mut self, page: P, claim: Retention) {
        self.order.withdraw(page, claim);
    }

    pub fn claims(&self, page: P) -> &Claims {
        self.order.claims(page)
    }

    /// The prefix index gives a page up to the table that holds it.
    pub fn give_up(&mut self, page: P) {
        let found = (self.holders(page), self.kept[page.index()]);
        assert_eq!(found, (2, true), "page {}", page.index());
        self.unkeep(page);
        self.holders[page.index()] = 1;
    }

    /// The prefix index lets an idle page go: it becomes free.
    pub fn forget(&mut self, page: P) {
        assert!(self.is_idle(page), "page {} is not idle", page.index());
        self.clean_idle -= usize::from(self.clean[page.index()]);
        self.unkeep(page);
        self.holders[page.index()] = 0;
        self.free.push(page);
    }

    /// So many idle pages to forget: clean ones in their order, then those that go first.
    pub fn to_go(&mut self, now_ms: u64, pages: usize) -> Vec<P> {
        let clean = &self.clean;
        let mut chosen = match self.clean_idle {
            0 => Vec::new(),
            some => self.order.oldest(now_ms, &|page: P| !clean[page.index()], pages.min(some)),
        };
        let left = pages - chosen.len();
        if 0 < left {
            chosen.extend(self.order.oldest(now_ms, &|page: P| clean[page.index()], left));
        }
        chosen
    }

    /// Whether a page can be taken without losing content that is more important than this.
    pub fn has_room_for(&mut self, claims: &Claims, now_ms: u64) -> bool {
        0 < self.reserve() || self.order.yields_to(claims, now_ms)
    }

    /// Idle pages whose content no level below has, those that go first before others.
    pub fn dirty_idle(&mut self, now_ms: u64, most: usize) -> Vec<P> {
        if self.idle() == self.clean_idle {
            return Vec::new();
        }
        let clean = &self.clean;
        self.order.oldest(now_ms, &|page: P| clean[page.index()], most)
    }

    /// Whether a level below has a kept page's content.
    pub fn set_clean(&mut self, page: P, clean: bool) {
        assert!(self.kept[page.index()], "page {} has no known content", page.index());
        let was = std::mem::replace(&mut self.clean[page.index()], clean);
        if self.is_idle(page) {
            self.clean_idle = self.clean_idle + usize::from(clean) - usize::from(was);
        }
    }

    pub fn is_clean(&self, page: P) -> bool {
        self.clean[page.index()]
    }

    pub fn holders(&self, page: P) -> u32 {
        self.holders[page.index()]
    }

    /// Holders besides the prefix index.
    pub fn users(&self, page: P) -> u32 {
        self.holders(page) - u32::from(self.kept[page.index()])
    }

    /// Whether several tables or moves hold the page.
    pub fn is_shared(&self, page: P) -> bool {
        1 < self.users(page)
    }

    pub fn is_idle(&self, page: P) -> bool {
        self.kept[page.index()] && self.holders[page.index()] == 1
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    pub fn idle(&self) -> usize {
        self.order.idle()
    }

    /// Pages that can be taken without losing what no level below has.
    pub fn reserve(&self) -> usize {
        self.free() + self.clean_idle
    }

    pub fn total(&self) -> usize {
        self.holders.len()
    }

    /// Panics when a page is lost or doubled.
    pub fn check(&self) {
        let mut listed_free = vec![false; self.total()];
        for page in &self.free {
            assert!(!listed_free[page.index()], "page {} is free twice", page.index());
            listed_free[page.index()] = true;
        }
        self.order.check();
        let mut clean_idle = 0;
        for (index, &free) in listed_free.iter().enumerate() {
            let page = P::from_index(index);
            let (holders, kept) = (self.holders[index], self.kept[index]);
            assert_eq!(free, holders == 0, "page {index} is free with {holders} holders");
            assert!(!(free && kept), "page {index} is free and kept");
            assert_eq!(self.order.contains(page), kept, "page {index} kept and placed");
            let is_idle = kept && self.order.is_idle(page);
            assert_eq!(self.is_idle(page), is_idle, "page {index} idle or used");
            assert!(kept || !self.clean[index], "page {index} is clean without content");
            clean_idle += usize::from(self.is_idle(page) && self.clean[index]);
        }
        assert_eq!(self.clean_idle, clean_idle, "clean pages that are idle");
    }

    fn add_holder(&mut self, page: P) {
        assert!(0 < self.holders(page), "page {} is shared but free", page.index());
        if self.is_idle(page) {
            self.clean_idle -= usize::from(self.clean[page.index()]);
        }
        self.holders[page.index()] += 1;
    }

    fn unkeep(&mut self, page: P) {
        self.kept[page.index()] = false;
        self.clean[page.index()] = false;
        self.order.remove(page);
    }
}

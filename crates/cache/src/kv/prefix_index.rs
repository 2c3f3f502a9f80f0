//! Full pages by content: who computes a prefix once lets everyone after find it.
//!
//! The index is a holder of each of its pages, so that they outlive their sequences until the
//! pool runs dry and the idle ones are *forgotten*, oldest first. (To *evict* is a policy's word.)
//! Invariant: a table's sealed pages are the very pages the index keeps for their keys. Whoever
//! holds a page of a group without a window therefore holds the indexed pages before it, and lets
//! them go last page first; so a page is always forgotten before the pages it builds on, and every
//! entry can be reached. Behind a window pages are let go first page first, and a match needs those
//! inside the window alone.

use std::collections::HashMap;

use crate::kv::{PageId, PageKey, PagePool};

pub struct PrefixIndex {
    pages: HashMap<PageKey, PageId>,
    keys: HashMap<PageId, PageKey>,
}

impl PrefixIndex {
    pub fn new() -> Self {
        PrefixIndex { pages: HashMap::new(), keys: HashMap::new() }
    }

    pub fn len(&self) -> usize {
        self.pages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The page with this content.
    pub fn get(&self, key: &PageKey) -> Option<PageId> {
        self.pages.get(key).copied()
    }

    /// Keeps `page` for `key`, unless another page is kept for it already. Returns the page kept.
    ///
    /// Two sequences may compute the same content at the same time; the second to seal it gets
    /// the first one's page.
    pub fn insert(&mut self, key: PageKey, page: PageId, pool: &mut PagePool) -> PageId {
        let kept = *self.pages.entry(key).or_insert(page);
        if kept == page && !self.keys.contains_key(&page) {
            self.keys.insert(page, key);
            pool.keep(page);
        }
        assert_eq!(self.keys[&kept], key, "page {} is indexed under another key", kept.0);
        kept
    }

    pub fn keeps(&self, page: PageId) -> bool {
        self.keys.contains_key(&page)
    }

    /// Lets an idle page go.
    pub fn forget(&mut self, page: PageId, pool: &mut PagePool) {
        self.remove(page);
        pool.forget(page);
    }

    /// Leaves a page to the one table that holds it, which is about to write it. Pages that build
    /// on it can no longer be found; nobody uses them, and they are forgotten in their turn.
    pub fn give_up(&mut self, page: PageId, pool: &mut PagePool) {
        self.remove(page);
        pool.give_up(page);
    }

    fn remove(&mut self, page: PageId) {
        let key = self.keys.remove(&page).expect("the page is in the index");
        self.pages.remove(&key);
    }

    /// Panics unless keys and pages stand for each other one to one, and the pool knows it.
    pub fn check(&self, pool: &PagePool) {
        assert_eq!(self.pages.len(), self.keys.len(), "keys and pages of the index");
        for (key, page) in &self.pages {
            assert_eq!(self.keys.get(page), Some(key), "page {} has another key", page.0);
            assert!(0 < pool.holders(*page), "page {} is indexed but free", page.0);
        }
    }
}

impl Default for PrefixIndex {
    fn default() -> Self {
        PrefixIndex::new()
    }
}

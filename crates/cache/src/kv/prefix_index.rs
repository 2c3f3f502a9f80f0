//! Full pages of a level by content: who computes a prefix once lets everyone after find it.
//!
//! The index is a holder of each of its pages, so that they outlive their sequences until the
//! pool runs dry and the idle ones are *forgotten*, in the order of the level's placement. (To
//! *evict* is a policy's word.) A table's sealed pages are the very pages the index keeps for their
//! keys. Who lets a prefix go lets its last page go first, so of pages that are equally important a
//! page is forgotten before those it builds on. A page that outlives those before it is found again
//! when they are computed or fetched again.

use std::collections::HashMap;

use crate::kv::{PageId, PageKey, PageNumber, PagePool};
use crate::placement::Retention;

pub struct PrefixIndex<P = PageId> {
    pages: HashMap<PageKey, P>,
    keys: HashMap<P, PageKey>,
}

impl<P: PageNumber> PrefixIndex<P> {
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
    pub fn get(&self, key: &PageKey) -> Option<P> {
        self.pages.get(key).copied()
    }

    /// What the page is kept for.
    pub fn key(&self, page: P) -> Option<PageKey> {
        self.keys.get(&page).copied()
    }

    /// Keeps `page` for `key`, unless another page is kept for it already. Returns the page kept.
    ///
    /// Two sequences may compute the same content at the same time; the second to seal it gets
    /// the first one's page.
    pub fn insert(
        &mut self,
        key: PageKey,
        page: P,
        retention: Retention,
        pool: &mut PagePool<P>,
    ) -> P {
        let kept = *self.pages.entry(key).or_insert(page);
        if kept == page && !self.keys.contains_key(&page) {
            self.keys.insert(page, key);
            pool.keep(page, key.short(), retention);
        } else {
            pool.retain(kept, retention);
        }
        assert_eq!(self.keys[&kept], key, "page {} is indexed under another key", kept.index());
        kept
    }

    /// One more claim to content, if it is here.
    pub fn retain(&self, key: &PageKey, claim: Retention, pool: &mut PagePool<P>) {
        self.get(key).into_iter().for_each(|page| pool.retain(page, claim));
    }

    /// A claim to content is given up, if it is here.
    pub fn withdraw(&self, key: &PageKey, claim: Retention, pool: &mut PagePool<P>) {
        self.get(key).into_iter().for_each(|page| pool.withdraw(page, claim));
    }

    /// Whether a level below has the content too, if it is here.
    pub fn set_clean(&self, key: &PageKey, clean: bool, pool: &mut PagePool<P>) {
        self.get(key).into_iter().for_each(|page| pool.set_clean(page, clean));
    }

    pub fn keeps(&self, page: P) -> bool {
        self.keys.contains_key(&page)
    }

    /// Lets an idle page go; what it held.
    pub fn forget(&mut self, page: P, pool: &mut PagePool<P>) -> PageKey {
        let key = self.remove(page);
        pool.forget(page);
        key
    }

    /// Leaves a page to the one table that holds it, which is about to write it. Pages that build
    /// on it can no longer be found; nobody uses them, and they are forgotten in their turn.
    pub fn give_up(&mut self, page: P, pool: &mut PagePool<P>) {
        self.remove(page);
        pool.give_up(page);
    }

    fn remove(&mut self, page: P) -> PageKey {
        let key = self.keys.remove(&page).expect("the page is in the index");
        self.pages.remove(&key);
        key
    }

    /// Panics unless keys and pages stand for each other one to one, and the pool knows it.
    pub fn check(&self, pool: &PagePool<P>) {
        assert_eq!(self.pages.len(), self.keys.len(), "keys and pages of the index");
        for (key, page) in &self.pages {
            assert_eq!(self.keys.get(page), Some(key), "page {} has another key", page.index());
            assert!(0 < pool.holders(*page), "page {} is indexed but free", page.index());
        }
    }
}

impl<P: PageNumber> Default for PrefixIndex<P> {
    fn default() -> Self {
        PrefixIndex::new()
    }
}

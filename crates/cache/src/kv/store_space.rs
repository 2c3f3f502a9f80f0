//! Pages that have left the device, as decisions: which pages of the store are taken, by how many
//! holders, and which content they are kept for.
//!
//! The bytes are elsewhere. As with [`PagePool`], who holds a page is known to its holders alone:
//! what a sequence remembers, a move that is under way, or work of a lower tier. Content that
//! nobody holds makes way for pages that are taken.

use crate::kv::{PageKey, PagePool, PrefixIndex, StorePageId};
use crate::placement::{Claims, PlacementRule, Retention};

pub struct StoreSpace {
    pool: PagePool<StorePageId>,
    index: PrefixIndex<StorePageId>,
    /// What was forgotten since somebody asked.
    forgotten: Vec<PageKey>,
    now_ms: u64,
}

impl StoreSpace {
    pub fn new(pages: usize, rule: PlacementRule) -> Self {
        StoreSpace {
            pool: PagePool::new(pages, rule),
            index: PrefixIndex::new(),
            forgotten: Vec::new(),
            now_ms: 0,
        }
    }

    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    pub fn total(&self) -> usize {
        self.pool.total()
    }

    /// Pages that can be taken now: free ones, and idle ones, which would be forgotten.
    pub fn available(&self) -> usize {
        self.pool.free() + self.pool.idle()
    }

    /// Pages kept only because their content may be asked for again.
    pub fn idle(&self) -> usize {
        self.pool.idle()
    }

    /// Pages that can be taken without losing what no lower tier has.
    pub fn reserve(&self) -> usize {
        self.pool.reserve()
    }

    /// Takes so many pages, or none.
    pub fn take(&mut self, pages: usize) -> Option<Vec<StorePageId>> {
        if self.available() < pages {
            return None;
        }
        let wanted = pages.saturating_sub(self.pool.free());
        for page in self.pool.to_go(self.now_ms, wanted) {
            let key = self.index.forget(page, &mut self.pool);
            self.forgotten.push(key);
        }
        Some((0..pages).map(|_| self.pool.take().expect("they were counted")).collect())
    }

    /// Takes a page for content with these claims, unless what would be lost is more important.
    pub fn take_for(&mut self, claims: &Claims) -> Option<StorePageId> {
        let is_worth_it = self.pool.has_room_for(claims, self.now_ms);
        is_worth_it.then(|| self.take(1)).flatten()?.pop()
    }

    /// The content of pages that were forgotten since the last call.
    pub fn take_forgotten(&mut self) -> Vec<PageKey> {
        std::mem::take(&mut self.forgotten)
    }

    /// The page with this content.
    pub fn get(&self, key: &PageKey) -> Option<StorePageId> {
        self.index.get(key)
    }

    /// What a page is kept for.
    pub fn key(&self, page: StorePageId) -> Option<PageKey> {
        self.index.key(page)
    }

    /// A page that somebody holds stays known by its content when it is let go, unless another one
    /// has it already.
    pub fn keep(&mut self, page: StorePageId, key: PageKey, retention: Retention) {
        self.index.insert(key, page, retention, &mut self.pool);
    }

    /// What was asked for a page that is known by content.
    pub fn claims(&self, page: StorePageId) -> &Claims {
        self.pool.claims(page)
    }

    /// One more claim to content, if it is here.
    pub fn retain(&mut self, key: &PageKey, claim: Retention) {
        self.index.retain(key, claim, &mut self.pool);
    }

    /// A claim to content is given up, if it is here.
    pub fn withdraw(&mut self, key: &PageKey, claim: Retention) {
        self.index.withdraw(key, claim, &mut self.pool);
    }

    /// Whether a lower tier has the content too.
    pub fn set_clean(&mut self, key: &PageKey, clean: bool) {
        self.index.set_clean(key, clean, &mut self.pool);
    }

    /// Idle pages that no lower tier has, those that go first before others.
    pub fn dirty_idle(&mut self, most: usize) -> Vec<StorePageId> {
        self.pool.dirty_idle(self.now_ms, most)
    }

    /// One more holder of pages that somebody holds, or that are known.
    pub fn share(&mut self, pages: &[StorePageId]) {
        pages.iter().for_each(|page| self.pool.share(*page));
    }

    /// As [`share`](Self::share), for one that copies what is there and is no use of it.
    pub fn share_aside(&mut self, pages: &[StorePageId]) {
        pages.iter().for_each(|page| self.pool.share_aside(*page));
    }

    pub fn release(&mut self, pages: &[StorePageId]) {
        pages.iter().for_each(|page| self.pool.release(*page));
    }

    /// Panics unless every page has as many holders as name it in `held`, the index among them.
    pub fn check(&self, held: impl IntoIterator<Item = StorePageId>) {
        self.pool.check();
        self.index.check(&self.pool);
        let mut holders = vec![0; self.total()];
        for page in held {
            holders[page.index()] += 1;
        }
        for (index, holders) in holders.into_iter().enumerate() {
            let page = StorePageId(index as u32);
            let kept = u32::from(self.index.keeps(page));
            assert_eq!(self.pool.holders(page), holders + kept, "holders of store page {index}");
        }
    }
}

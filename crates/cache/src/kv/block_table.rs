//! One sequence's pages in one group: which physical page holds which of its tokens.
//!
//! Logical page `i` holds tokens `i * page_tokens..`. All pages but the last are full. A page may
//! be absent: behind a sliding window, or demoted to another tier. A table is a holder of the pages
//! that are present, so it is not `Clone` and must hold none when it is dropped.
//! Invariant: a page that someone else holds too is never written; it is copied first.

use crate::kv::{PageId, PagePool, SlotId};

pub struct BlockTable {
    page_tokens: usize,
    pages: Vec<Option<PageId>>,
    len: usize,
    sealed: usize,
    /// Leading pages that are absent for good: no later token sees them.
    passed: usize,
}

/// The content of page `from` must be in page `to` before the step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCopy {
    pub from: PageId,
    pub to: PageId,
}

/// Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of kv pages: wanted {wanted}, free {free}")]
pub struct OutOfPages {
    pub wanted: usize,
    pub free: usize,
}

impl BlockTable {
    pub fn new(page_tokens: usize) -> Self {
        assert!(0 < page_tokens, "a page holds at least one token");
        BlockTable { page_tokens, pages: Vec::new(), len: 0, sealed: 0, passed: 0 }
    }

    /// A table over full pages that it holds from now on, of which the first `sealed` are known by
    /// their content. The first ones may be absent: no later token sees them.
    pub(super) fn over(page_tokens: usize, pages: Vec<Option<PageId>>, sealed: usize) -> Self {
        let mut table = BlockTable::new(page_tokens);
        table.len = pages.len() * page_tokens;
        table.sealed = sealed;
        table.passed = pages.iter().take_while(|page| page.is_none()).count();
        table.pages = pages;
        table
    }

    /// A table of `len` slots whose pages are elsewhere. No later token sees the first `passed` of
    /// them.
    pub fn absent(page_tokens: usize, len: usize, passed: usize) -> Self {
        let mut table = BlockTable::new(page_tokens);
        table.len = len;
        table.pages = vec![None; len.div_ceil(page_tokens)];
        assert!(passed <= table.pages.len(), "{passed} of {} pages", table.pages.len());
        table.passed = passed;
        table
    }

    /// Tokens that have a slot, or had one.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn page_tokens(&self) -> usize {
        self.page_tokens
    }

    /// Physical pages in logical order; `None` where one is absent.
    pub fn pages(&self) -> &[Option<PageId>] {
        &self.pages
    }

    /// The pages that the table holds.
    pub fn held(&self) -> impl DoubleEndedIterator<Item = PageId> {
        self.pages.iter().copied().flatten()
    }

    /// Leading pages whose content is final and known to the prefix index, or was.
    pub fn sealed_pages(&self) -> usize {
        self.sealed
    }

    /// Where the token at `position` is.
    pub fn slot(&self, position: usize) -> SlotId {
        assert!(position < self.len, "position {position} of {} slots", self.len);
        let page = self.pages[position / self.page_tokens];
        let page = page.unwrap_or_else(|| panic!("the page of position {position} is absent"));
        page.slot(position % self.page_tokens, self.page_tokens)
    }

    /// Pages that `append_slots` would take.
    pub fn pages_wanted(&self, tokens: usize, pool: &PagePool) -> usize {
        if tokens == 0 {
            return 0;
        }
        let fresh = (self.len + tokens).div_ceil(self.page_tokens) - self.pages.len();
        fresh + usize::from(self.shared_open_page(pool).is_some())
    }

    /// Gives slots to `tokens` more tokens, or takes nothing at all.
    ///
    /// When the last page has room but other holders too, a copy of it takes its place.
    pub fn append_slots(
        &mut self,
        tokens: usize,
        pool: &mut PagePool,
    ) -> Result<Option<PageCopy>, OutOfPages> {
        let wanted = self.pages_wanted(tokens, pool);
        if pool.free() < wanted {
            return Err(OutOfPages { wanted, free: pool.free() });
        }
        if tokens == 0 {
            return Ok(None);
        }
        let copy =
            self.shared_open_page(pool).is_some().then(|| self.replace(self.pages.len() - 1, pool));
        self.len += tokens;
        while self.pages.len() * self.page_tokens < self.len {
            self.pages.push(Some(take_counted(pool)));
        }
        Ok(copy)
    }

    /// Takes the slots of all tokens from `tokens` on away.
    pub fn truncate(&mut self, tokens: usize, pool: &mut PagePool) {
        self.len = self.len.min(tokens);
        for page in self.pages.drain(self.len.div_ceil(self.page_tokens)..).rev().flatten() {
            pool.release(page);
        }
        self.sealed = self.sealed.min(self.len / self.page_tokens);
        self.passed = self.passed.min(self.pages.len());
    }

    /// No later token sees those before `position`: lets the pages go that hold no other.
    pub fn release_before(&mut self, position: usize, pool: &mut PagePool) {
        let end = (position / self.page_tokens).min(self.pages.len());
        for page in &mut self.pages[self.passed.min(end)..end] {
            if let Some(page) = page.take() {
                pool.release(page);
            }
        }
        self.passed = self.passed.max(end);
    }

    /// A second table over the same pages.
    pub fn fork(&self, pool: &mut PagePool) -> BlockTable {
        for page in self.held() {
            pool.share(page);
        }
        BlockTable { pages: self.pages.clone(), ..*self }
    }

    /// The next unsealed page is full and final; `kept` is the page that the index keeps for its
    /// content. When that is another page, it takes this one's place and this one is released.
    /// `None` where the page is absent.
    pub fn seal_next(&mut self, kept: Option<PageId>, pool: &mut PagePool) {
        assert!((self.sealed + 1) * self.page_tokens <= self.len, "the page to seal is not full");
        let own = std::mem::replace(&mut self.pages[self.sealed], kept);
        assert_eq!(own.is_some(), kept.is_some(), "an absent page has no content");
        if own != kept {
            kept.into_iter().for_each(|page| pool.share(page));
            own.into_iter().for_each(|page| pool.release(page));
        }
        self.sealed += 1;
    }

    /// A copy of logical page `index` takes its place.
    pub fn replace(&mut self, index: usize, pool: &mut PagePool) -> PageCopy {
        let to = take_counted(pool);
        let from = self.pages[index].replace(to).expect("the page is present");
        pool.release(from);
        PageCopy { from, to }
    }

    /// Another page takes the place of logical page `index`, which nobody has filled. The table
    /// holds it from now on, and the other one no longer.
    pub(super) fn put_in_place(&mut self, index: usize, page: PageId) -> PageId {
        assert!(self.sealed <= index, "logical page {index} is filled");
        self.pages[index].replace(page).expect("the page is present")
    }

    /// From now on the table's pages are written: none is final.
    pub fn unseal(&mut self) {
        self.sealed = 0;
    }

    /// Takes every page out, with its logical number; the entries stay, absent. Who takes them is
    /// their holder now.
    pub fn take_pages(&mut self) -> Vec<(usize, PageId)> {
        self.sealed = 0;
        let entries = self.pages.iter_mut().enumerate();
        entries.filter_map(|(index, page)| Some((index, page.take()?))).collect()
    }

    /// A fresh page for an absent one.
    pub fn put_page(&mut self, index: usize, pool: &mut PagePool) -> PageId {
        let page = take_counted(pool);
        let absent = self.pages[index].replace(page).is_none();
        assert!(absent, "logical page {index} is present");
        page
    }

    /// Lets every page go, the last one first: pages become idle in the order in which they should
    /// be forgotten, for a page is of no use without those before it.
    pub fn release_all(&mut self, pool: &mut PagePool) {
        (self.len, self.sealed, self.passed) = (0, 0, 0);
        for page in self.pages.drain(..).rev().flatten() {
            pool.release(page);
        }
    }

    /// The last page, if it has room and is not ours alone.
    fn shared_open_page(&self, pool: &PagePool) -> Option<PageId> {
        let is_open = !self.len.is_multiple_of(self.page_tokens);
        let last = (*self.pages.last()?)?;
        (is_open && 1 < pool.holders(last)).then_some(last)
    }
}

impl Drop for BlockTable {
    fn drop(&mut self) {
        debug_assert!(
            self.held().next().is_none() || std::thread::panicking(),
            "a block table was dropped with {} pages",
            self.held().count()
        );
    }
}

fn take_counted(pool: &mut PagePool) -> PageId {
    pool.take().expect("the free pages were counted")
}

//! One sequence's pages in one group: which physical page holds which of its tokens.
//!
//! Logical page `i` holds tokens `i * page_tokens..`. All pages but the last are full. A table is
//! a holder of its pages, so it is not `Clone` and must be empty when it is dropped.
//! Invariant: a page that someone else holds too is never written; it is copied first.

use crate::kv::{PageId, PagePool, SlotId};

pub struct BlockTable {
    page_tokens: usize,
    pages: Vec<PageId>,
    len: usize,
    sealed: usize,
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
        BlockTable { page_tokens, pages: Vec::new(), len: 0, sealed: 0 }
    }

    /// A table that starts with full pages of known content; it becomes one more holder.
    pub fn with_prefix(page_tokens: usize, pages: &[PageId], pool: &mut PagePool) -> Self {
        for &page in pages {
            pool.share(page);
        }
        let mut table = BlockTable::new(page_tokens);
        table.pages.extend_from_slice(pages);
        table.len = pages.len() * page_tokens;
        table.sealed = pages.len();
        table
    }

    /// Tokens that have a slot.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn page_tokens(&self) -> usize {
        self.page_tokens
    }

    /// Physical pages in logical order.
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// Leading pages whose content is final and known to the prefix index.
    pub fn sealed_pages(&self) -> usize {
        self.sealed
    }

    /// Where the token at `position` is.
    pub fn slot(&self, position: usize) -> SlotId {
        assert!(position < self.len, "position {position} of {} slots", self.len);
        self.pages[position / self.page_tokens].slot(position % self.page_tokens, self.page_tokens)
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
        let copy = self.shared_open_page(pool).map(|from| {
            let to = take_counted(pool);
            *self.pages.last_mut().expect("an open page is the last one") = to;
            pool.release(from);
            PageCopy { from, to }
        });
        self.len += tokens;
        while self.pages.len() * self.page_tokens < self.len {
            self.pages.push(take_counted(pool));
        }
        Ok(copy)
    }

    /// A second table over the same pages.
    pub fn fork(&self, pool: &mut PagePool) -> BlockTable {
        for &page in &self.pages {
            pool.share(page);
        }
        BlockTable { pages: self.pages.clone(), ..*self }
    }

    /// The next unsealed page is full and final; `kept` is the page that the index keeps for its
    /// content. When that is another page, it takes this one's place and this one is released.
    pub fn seal_next(&mut self, kept: PageId, pool: &mut PagePool) {
        assert!((self.sealed + 1) * self.page_tokens <= self.len, "the page to seal is not full");
        let own = std::mem::replace(&mut self.pages[self.sealed], kept);
        if own != kept {
            pool.share(kept);
            pool.release(own);
        }
        self.sealed += 1;
    }

    /// A copy of logical page `index` takes its place.
    pub fn replace(&mut self, index: usize, pool: &mut PagePool) -> PageCopy {
        let to = take_counted(pool);
        let from = std::mem::replace(&mut self.pages[index], to);
        pool.release(from);
        PageCopy { from, to }
    }

    /// From now on the table's pages are written: none is final.
    pub fn unseal(&mut self) {
        self.sealed = 0;
    }

    /// Lets every page go, the last one first: pages become idle in the order in which they should
    /// be forgotten, for a page is of no use without those before it.
    pub fn release_all(&mut self, pool: &mut PagePool) {
        (self.len, self.sealed) = (0, 0);
        for page in self.pages.drain(..).rev() {
            pool.release(page);
        }
    }

    /// The last page, if it has room and is not ours alone.
    fn shared_open_page(&self, pool: &PagePool) -> Option<PageId> {
        let is_open = !self.len.is_multiple_of(self.page_tokens);
        let last = *self.pages.last()?;
        (is_open && 1 < pool.holders(last)).then_some(last)
    }
}

impl Drop for BlockTable {
    fn drop(&mut self) {
        debug_assert!(
            self.pages.is_empty() || std::thread::panicking(),
            "a block table was dropped with {} pages",
            self.pages.len()
        );
    }
}

fn take_counted(pool: &mut PagePool) -> PageId {
    pool.take().expect("the free pages were counted")
}

//! What a sequence remembers: its tokens, how many of them are computed, and where their keys and
//! values are.
//!
//! It may be shared by forks, outlive its request behind a [`KvHandle`](crate::KvHandle), and leave
//! the device for the store. Invariant: a page that was demoted and not restored is absent from its
//! table; while it is fetched it is in both.

use terrace_cache::policy::ReplayLog;
use terrace_cache::{
    BlockTable, KindId, KvSpace, MoveId, OutOfPages, PageId, PageKeys, StorePageId, StoreSpace,
    TokenId,
};

use crate::generate::prefix_fetch::PrefixFetch;

pub(crate) struct SeqMemory {
    pub(crate) tokens: Vec<TokenId>,
    /// Tokens whose keys and values finished steps have put into their slots.
    pub(crate) computed: usize,
    /// The kind of its cache.
    pub(crate) kind: KindId,
    /// One for each kv group.
    pub(crate) tables: Vec<BlockTable>,
    /// Nobody else holds or keeps its pages: its policy may write them.
    pub(crate) owns_pages: bool,
    pub(crate) keys: Vec<PageKeys>,
    /// Pages with later tokens are not found by content.
    pub(crate) sealed_end: usize,
    /// Tokens up to here are computed with the positions scaled alike, later ones each as the
    /// sequence is long then.
    pub(crate) scaled_end: usize,
    /// Where tokens of a prompt and generated ones alternate: the first generated one, the first of
    /// a prompt after them, and so on.
    pub(crate) row_kind_ends: Vec<usize>,
    /// What its policy has decided, if that is written down.
    pub(crate) replay: Option<ReplayLog>,
    pub(crate) demoted: Vec<DemotedPage>,
    /// The move that brings what was demoted.
    pub(crate) restored_by: Option<MoveId>,
    /// What is missing of a known prefix. Its pages are taken, and not filled.
    pub(crate) prefix_fetch: Option<PrefixFetch>,
}

/// An entry of a table that left the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DemotedPage {
    pub(crate) table: usize,
    pub(crate) index: usize,
    /// Where its bytes are; `None` if it holds no token yet.
    pub(crate) stored: Option<StorePageId>,
}

/// What is copied in a move.
pub(crate) type PagePairs = Vec<(PageId, StorePageId)>;

impl SeqMemory {
    /// Of tokens of which nothing is computed; `keys` are empty chains, one for each kv group.
    pub(crate) fn new(tokens: Vec<TokenId>, kind: KindId, keys: Vec<PageKeys>) -> Self {
        SeqMemory {
            tokens,
            computed: 0,
            kind,
            tables: Vec::new(),
            owns_pages: false,
            keys,
            sealed_end: usize::MAX,
            scaled_end: usize::MAX,
            row_kind_ends: Vec::new(),
            replay: None,
            demoted: Vec::new(),
            restored_by: None,
            prefix_fetch: None,
        }
    }

    /// The same past once more, over the same pages.
    pub(crate) fn fork(&self, space: &mut KvSpace, store: &mut StoreSpace) -> SeqMemory {
        assert!(self.prefix_fetch.is_none(), "what is missing is not shared");
        store.share(&self.stored().collect::<Vec<_>>());
        SeqMemory {
            tokens: self.tokens.clone(),
            tables: space.fork(&self.tables),
            owns_pages: false,
            keys: self.keys.clone(),
            row_kind_ends: self.row_kind_ends.clone(),
            replay: self.replay.clone(),
            demoted: self.demoted.clone(),
            restored_by: None,
            prefix_fetch: None,
            ..*self
        }
    }

    /// Goes on from another past, whose tokens are the first of its own.
    pub(crate) fn adopt(&mut self, past: SeqMemory) {
        let SeqMemory { tables, computed, replay, demoted, .. } = past;
        (self.tables, self.computed, self.replay, self.demoted) =
            (tables, computed, replay, demoted);
    }

    /// Whether the token at `position` was generated.
    pub(crate) fn is_generated(&self, position: usize) -> bool {
        self.row_kind_ends.partition_point(|end| *end <= position) % 2 == 1
    }

    /// Its pages in the store.
    pub(crate) fn stored(&self) -> impl Iterator<Item = StorePageId> {
        self.demoted.iter().filter_map(|page| page.stored)
    }

    pub(crate) fn is_on_device(&self) -> bool {
        self.tables.iter().any(|table| table.held().next().is_some())
    }

    /// Pages that it has on the device.
    pub(crate) fn on_device(&self) -> usize {
        self.tables.iter().map(|table| table.held().count()).sum()
    }

    /// Takes its pages off the device, if the store has room for those with tokens; what must be
    /// copied, whose pages on the device the caller holds now. Nothing is under way.
    pub(crate) fn demote(
        &mut self,
        space: &mut KvSpace,
        store: &mut StoreSpace,
    ) -> Option<PagePairs> {
        assert!(self.demoted.is_empty(), "it has left the device");
        let used: Vec<usize> = self.tables.iter().map(|table| self.used_pages(table)).collect();
        let held =
            |(table, used): (&BlockTable, &usize)| table.pages()[..*used].iter().flatten().count();
        let wanted = self.tables.iter().zip(&used).map(held).sum();
        let mut stored = store.take(wanted)?.into_iter();
        let mut pairs = Vec::new();
        for (number, table) in self.tables.iter_mut().enumerate() {
            for (index, page) in table.take_pages() {
                let stored = if index < used[number] { stored.next() } else { None };
                match stored {
                    Some(stored) => pairs.push((page, stored)),
                    None => space.release_pages(&[page]),
                }
                self.demoted.push(DemotedPage { table: number, index, stored });
            }
        }
        self.owns_pages = false;
        Some(pairs)
    }

    /// Takes pages for all that left the device; what must be copied into them. The pages stay in
    /// the store until [`SeqMemory::arrived`].
    pub(crate) fn restore(&mut self, space: &mut KvSpace) -> Result<PagePairs, OutOfPages> {
        let absent: Vec<_> = self.demoted.iter().map(|page| (page.table, page.index)).collect();
        let pages = space.restore(&mut self.tables, &absent)?;
        let pairs = self.demoted.iter().zip(pages);
        Ok(pairs.filter_map(|(demoted, page)| Some((page, demoted.stored?))).collect())
    }

    /// Takes all pages out again while they are fetched; who calls holds them now.
    pub(crate) fn take_back(&mut self) -> Vec<PageId> {
        self.restored_by = None;
        let mut pages = Vec::new();
        for (number, table) in self.tables.iter_mut().enumerate() {
            for (index, page) in table.take_pages() {
                let is_known =
                    |demoted: &DemotedPage| (demoted.table, demoted.index) == (number, index);
                if !self.demoted.iter().any(is_known) {
                    self.demoted.push(DemotedPage { table: number, index, stored: None });
                }
                pages.push(page);
            }
        }
        pages
    }

    /// What was to be restored is on the device.
    pub(crate) fn arrived(&mut self, store: &mut StoreSpace) {
        store.release(&self.stored().collect::<Vec<_>>());
        self.demoted.clear();
        self.restored_by = None;
    }

    /// Gives slots back that hold no token yet; from now on nobody writes its pages.
    pub(crate) fn truncate(&mut self, space: &mut KvSpace) {
        self.prefix_fetch = None;
        space.truncate(&mut self.tables, self.computed);
        let tables = &self.tables;
        self.demoted.retain(|page| page.index < tables[page.table].pages().len());
        self.owns_pages = false;
    }

    /// Lets all pages go: every token is computed again.
    pub(crate) fn forget(&mut self, space: &mut KvSpace, store: &mut StoreSpace) {
        space.release(std::mem::take(&mut self.tables));
        self.arrived(store);
        self.computed = 0;
        self.owns_pages = false;
        self.prefix_fetch = None;
    }

    /// Leading pages of a table that hold a token.
    fn used_pages(&self, table: &BlockTable) -> usize {
        self.computed.min(table.len()).div_ceil(table.page_tokens())
    }
}

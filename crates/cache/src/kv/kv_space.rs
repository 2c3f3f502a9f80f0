//! All pages of an engine and their content, shared by many sequences: the logical side of the
//! key/value memory.
//!
//! A sequence has one kind of cache: a list of groups of layers, with their formats. It holds one
//! block table per group, all kinds over one pool. Pages that no sequence holds stay known by their
//! content until the room is needed. No bytes, no device, no clock.

use std::ops::Range;

use crate::TokenId;
use crate::kv::{
    BlockTable, KvGroup, OutOfPages, PageCopy, PageId, PageKeys, PagePool, PrefixIndex, PrefixSeed,
};

pub struct KvSpace {
    pool: PagePool,
    /// Those of all kinds, one kind after the other.
    groups: Vec<IndexedGroup>,
    kinds: Vec<Range<usize>>,
    seed: PrefixSeed,
}

/// Names a kind of cache inside one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(usize);

impl KindId {
    /// The kind that a space is made with.
    pub const FIRST: KindId = KindId(0);
}

struct IndexedGroup {
    spec: KvGroup,
    index: PrefixIndex,
}

/// Content found in the index: the first `tokens` of a sequence, in every group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixMatch {
    pub tokens: usize,
    /// For each group, the pages that hold them; those that no later token sees are absent.
    pub pages: Vec<Vec<Option<PageId>>>,
}

impl PrefixMatch {
    fn entries(&self) -> usize {
        self.pages.iter().map(Vec::len).sum()
    }

    fn found(&self) -> impl Iterator<Item = PageId> {
        self.pages.iter().flatten().copied().flatten()
    }
}

impl KvSpace {
    /// Kernels address slots with 32-bit signed numbers.
    pub const MAX_SLOTS: usize = i32::MAX as usize;

    /// `groups` are those of the first kind.
    pub fn new(groups: &[KvGroup], pages: usize, seed: PrefixSeed) -> Self {
        let pool = PagePool::new(pages);
        let mut space = KvSpace { pool, groups: Vec::new(), kinds: Vec::new(), seed };
        space.kind(groups);
        space
    }

    /// The kind with these groups, which is added where it is new.
    pub fn kind(&mut self, groups: &[KvGroup]) -> KindId {
        assert!(!groups.is_empty(), "a model has at least one kv group");
        let same = |kind: &Range<usize>| {
            self.groups[kind.clone()].iter().map(|group| &group.spec).eq(groups)
        };
        if let Some(known) = self.kinds.iter().position(same) {
            return KindId(known);
        }
        for group in groups {
            let slots = self.total().saturating_mul(group.page_tokens());
            assert!(slots <= Self::MAX_SLOTS, "{slots} kv slots of {}", Self::MAX_SLOTS);
        }
        let first = self.groups.len();
        let new = |spec: &KvGroup| IndexedGroup { spec: spec.clone(), index: PrefixIndex::new() };
        self.groups.extend(groups.iter().map(new));
        self.kinds.push(first..self.groups.len());
        KindId(self.kinds.len() - 1)
    }

    pub fn groups(&self, kind: KindId) -> impl Iterator<Item = &KvGroup> {
        self.groups_of(kind).iter().map(|group| &group.spec)
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

    /// Holders of the page, the prefix index among them.
    pub fn holders(&self, page: PageId) -> u32 {
        self.pool.holders(page)
    }

    /// Holders of the page besides the prefix index.
    pub fn users(&self, page: PageId) -> u32 {
        self.pool.users(page)
    }

    /// From now on free pages are taken in a random order, as after a long service.
    pub fn shuffle_pages(&mut self, seed: u64) {
        self.pool.shuffle_free(seed);
    }

    /// Pages that one sequence needs when it shares none; `slots` are those of each group.
    pub fn pages_for(&self, kind: KindId, slots: &[usize]) -> usize {
        self.groups(kind).zip(slots).map(|(group, slots)| group.pages_for(*slots)).sum()
    }

    /// Empty key chains for a new sequence, one per group.
    pub fn new_keys(&self, kind: KindId, salt: &str) -> Vec<PageKeys> {
        self.groups(kind)
            .map(|group| PageKeys::new(self.seed.root(group, salt), group.page_tokens()))
            .collect()
    }

    /// The longest prefix of at most `limit` tokens that every group knows, as far as later tokens
    /// see it.
    pub fn longest_match(&self, kind: KindId, keys: &[PageKeys], limit: usize) -> PrefixMatch {
        let groups = self.groups_of(kind);
        let known: Vec<KnownPages<'_>> =
            groups.iter().zip(keys).map(|(group, keys)| group.known_pages(keys, limit)).collect();
        // Pages of one group may be longer than another's: shorten until all end together.
        let mut tokens = limit;
        loop {
            let ends = known.iter().map(|known| known.longest_end(tokens));
            let shortest = ends.min().expect("at least one group");
            if shortest == tokens {
                break;
            }
            tokens = shortest;
        }
        PrefixMatch { tokens, pages: known.iter().map(|known| known.visible(tokens)).collect() }
    }

    /// By how much `available` shrinks when `open` is called with the same arguments.
    pub fn cost_to_open(&self, kind: KindId, matched: &PrefixMatch, slots: &[usize]) -> usize {
        let woken = matched.found().filter(|page| self.pool.is_idle(*page)).count();
        self.pages_for(kind, slots) - matched.entries() + woken
    }

    /// Pages of a match that sequences hold now.
    pub fn used_by_others(&self, matched: &PrefixMatch) -> usize {
        matched.found().filter(|page| !self.pool.is_idle(*page)).count()
    }

    /// Tables with so many slots in each group, the first of them already filled by the match.
    pub fn open(
        &mut self,
        kind: KindId,
        matched: &PrefixMatch,
        slots: &[usize],
    ) -> Result<Vec<BlockTable>, OutOfPages> {
        self.check_available(self.cost_to_open(kind, matched, slots))?;
        let mut tables: Vec<_> = self.groups[self.kinds[kind.0].clone()]
            .iter()
            .zip(&matched.pages)
            .map(|(group, pages)| {
                BlockTable::with_prefix(group.spec.page_tokens(), pages, &mut self.pool)
            })
            .collect();
        self.free_pages(self.pages_for(kind, slots) - matched.entries());
        for (table, slots) in tables.iter_mut().zip(slots) {
            let more = slots.saturating_sub(table.len());
            let copy = table.append_slots(more, &mut self.pool).expect("the cost was counted");
            debug_assert!(copy.is_none(), "a matched page is full");
        }
        Ok(tables)
    }

    /// Pages that `own` must take: those that other tables hold too.
    pub fn cost_to_own(&self, tables: &[BlockTable]) -> usize {
        let pages = tables.iter().flat_map(BlockTable::held);
        pages.filter(|page| self.pool.is_shared(*page)).count()
    }

    /// Makes all pages of a sequence its own, so that any of them may be written; what must be
    /// copied first. `spare` counts pages that may be taken beyond what it costs, so that content
    /// others may ask for stays known.
    pub fn own(
        &mut self,
        kind: KindId,
        tables: &mut [BlockTable],
        spare: &mut usize,
    ) -> Result<Vec<PageCopy>, OutOfPages> {
        self.check_available(self.cost_to_own(tables))?;
        let mut copies = Vec::new();
        let groups = self.kinds[kind.0].clone();
        for (group, table) in groups.zip(tables) {
            // The last page first: a page is forgotten before those it builds on.
            for index in (0..table.pages().len()).rev() {
                let Some(page) = table.pages()[index] else { continue };
                let kept = self.groups[group].index.keeps(page);
                if self.pool.is_shared(page) || (kept && 0 < *spare) {
                    if !self.pool.is_shared(page) {
                        *spare -= 1;
                    }
                    self.free_pages(1);
                    copies.push(table.replace(index, &mut self.pool));
                } else if kept {
                    self.groups[group].index.give_up(page, &mut self.pool);
                }
            }
            table.unseal();
        }
        Ok(copies)
    }

    /// Pages that `grow` would take.
    pub fn cost_to_grow(&self, tables: &[BlockTable], slots: &[usize]) -> usize {
        let wanted = |(table, slots): (&BlockTable, &usize)| {
            table.pages_wanted(slots.saturating_sub(table.len()), &self.pool)
        };
        tables.iter().zip(slots).map(wanted).sum()
    }

    /// Gives each table so many slots in all, or takes nothing; what must be copied first.
    pub fn grow(
        &mut self,
        tables: &mut [BlockTable],
        slots: &[usize],
    ) -> Result<Vec<PageCopy>, OutOfPages> {
        let wanted = self.cost_to_grow(tables, slots);
        self.check_available(wanted)?;
        self.free_pages(wanted);
        let mut copies = Vec::new();
        for (table, slots) in tables.iter_mut().zip(slots) {
            let more = slots.saturating_sub(table.len());
            let copy = table.append_slots(more, &mut self.pool);
            copies.extend(copy.expect("the free pages were counted"));
        }
        Ok(copies)
    }

    /// Tables of a second sequence with the same past.
    pub fn fork(&mut self, tables: &[BlockTable]) -> Vec<BlockTable> {
        tables.iter().map(|table| table.fork(&mut self.pool)).collect()
    }

    /// The pages that `computed` fills are final: others may find them.
    pub fn seal(
        &mut self,
        kind: KindId,
        tables: &mut [BlockTable],
        keys: &mut [PageKeys],
        computed: &[TokenId],
    ) {
        let groups = self.kinds[kind.0].clone();
        for ((group, table), keys) in self.groups[groups].iter_mut().zip(tables).zip(keys) {
            keys.extend(computed);
            let full = computed.len() / table.page_tokens();
            for page in table.sealed_pages()..full {
                let own = table.pages()[page];
                let key = keys.as_slice()[page];
                let kept = own.map(|own| group.index.insert(key, own, &mut self.pool));
                table.seal_next(kept, &mut self.pool);
            }
        }
    }

    /// Lets the pages go that no token from position `next` on sees: those behind a window.
    pub fn release_passed(&mut self, kind: KindId, tables: &mut [BlockTable], next: usize) {
        let groups = self.kinds[kind.0].clone();
        for (group, table) in self.groups[groups].iter().zip(tables) {
            table.release_before(group.spec.first_visible(next), &mut self.pool);
        }
    }

    /// Takes the slots of all tokens from `tokens` on away.
    pub fn truncate(&mut self, tables: &mut [BlockTable], tokens: usize) {
        for table in tables {
            table.truncate(tokens, &mut self.pool);
        }
    }

    /// Fresh pages for absent ones, each named by its table and logical number.
    pub fn restore(
        &mut self,
        tables: &mut [BlockTable],
        absent: &[(usize, usize)],
    ) -> Result<Vec<PageId>, OutOfPages> {
        self.check_available(absent.len())?;
        self.free_pages(absent.len());
        let pool = &mut self.pool;
        Ok(absent.iter().map(|(table, index)| tables[*table].put_page(*index, pool)).collect())
    }

    /// One more holder of pages that somebody holds.
    pub fn share(&mut self, pages: &[PageId]) {
        pages.iter().for_each(|page| self.pool.share(*page));
    }

    /// A holder other than a table lets pages go.
    pub fn release_pages(&mut self, pages: &[PageId]) {
        pages.iter().for_each(|page| self.pool.release(*page));
    }

    /// Lets all pages of a sequence go.
    pub fn release(&mut self, mut tables: Vec<BlockTable>) {
        for table in &mut tables {
            table.release_all(&mut self.pool);
        }
    }

    /// Panics unless every page has exactly as many holders as tables, moves and index entries name
    /// it. `held` are the pages of all tables and moves, once for each holder.
    pub fn check(&self, held: impl IntoIterator<Item = PageId>) {
        self.pool.check();
        let mut holders = vec![0; self.total()];
        for page in held {
            holders[page.index()] += 1;
        }
        for group in &self.groups {
            group.index.check(&self.pool);
        }
        for (index, holders) in holders.iter().enumerate() {
            let page = PageId(index as u32);
            let keepers = self.groups.iter().filter(|group| group.index.keeps(page)).count() as u32;
            assert!(keepers <= 1, "page {index} is kept by {keepers} groups");
            assert_eq!(self.pool.holders(page), holders + keepers, "holders of page {index}");
        }
    }

    fn groups_of(&self, kind: KindId) -> &[IndexedGroup] {
        &self.groups[self.kinds[kind.0].clone()]
    }

    fn check_available(&self, wanted: usize) -> Result<(), OutOfPages> {
        let free = self.available();
        if free < wanted { Err(OutOfPages { wanted, free }) } else { Ok(()) }
    }

    /// Forgets idle pages until `pages` are free, those first whose last user left first.
    fn free_pages(&mut self, pages: usize) {
        while self.pool.free() < pages {
            let page = self.pool.oldest_idle().expect("the idle pages were counted");
            let keeper = self.groups.iter_mut().find(|group| group.index.keeps(page));
            let keeper = keeper.expect("an idle page is kept by one group");
            keeper.index.forget(page, &mut self.pool);
        }
    }
}

impl IndexedGroup {
    fn known_pages(&self, keys: &PageKeys, limit: usize) -> KnownPages<'_> {
        let keys = keys.as_slice();
        let most = keys.len().min(limit / self.spec.page_tokens());
        let pages = match self.spec.window {
            Some(_) => keys[..most].iter().map(|key| self.index.get(key)).collect(),
            // What lies behind an unknown page is of no use.
            None => keys[..most].iter().map_while(|key| self.index.get(key).map(Some)).collect(),
        };
        KnownPages { spec: &self.spec, pages }
    }
}

/// A sequence's first full pages in one group, as far as the index knows them.
struct KnownPages<'a> {
    spec: &'a KvGroup,
    pages: Vec<Option<PageId>>,
}

impl KnownPages<'_> {
    /// The longest prefix of at most `tokens` after which a token finds all that it sees.
    fn longest_end(&self, tokens: usize) -> usize {
        let page_tokens = self.spec.page_tokens();
        let most = self.pages.len().min(tokens / page_tokens);
        let is_known = |end: &usize| {
            let first = self.spec.first_visible(end * page_tokens) / page_tokens;
            self.pages[first.min(*end)..*end].iter().all(Option::is_some)
        };
        (0..=most).rev().find(is_known).expect("nothing is always known") * page_tokens
    }

    fn visible(&self, tokens: usize) -> Vec<Option<PageId>> {
        let page_tokens = self.spec.page_tokens();
        let first = self.spec.first_visible(tokens) / page_tokens;
        let pages = self.pages[..tokens / page_tokens].iter().enumerate();
        pages.map(|(index, page)| page.filter(|_| first <= index)).collect()
    }
}

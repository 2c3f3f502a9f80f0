//! All pages of an engine and their content, shared by many sequences: the logical side of the
//! key/value memory.
//!
//! A sequence holds one block table per group, all over one pool. Pages that no sequence holds
//! stay known by their content until the room is needed. No bytes, no device, no clock.

use crate::TokenId;
use crate::kv::{
    BlockTable, KvGroup, OutOfPages, PageCopy, PageId, PageKeys, PagePool, PrefixIndex, PrefixSeed,
};

pub struct KvSpace {
    pool: PagePool,
    groups: Vec<Group>,
    seed: PrefixSeed,
}

struct Group {
    spec: KvGroup,
    index: PrefixIndex,
}

/// Content found in the index: the first `tokens` of a sequence, in every group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixMatch {
    pub tokens: usize,
    /// For each group, the pages that hold them.
    pub pages: Vec<Vec<PageId>>,
}

impl KvSpace {
    /// Kernels address slots with 32-bit signed numbers.
    pub const MAX_SLOTS: usize = i32::MAX as usize;

    pub fn new(groups: Vec<KvGroup>, pages: usize, seed: PrefixSeed) -> Self {
        assert!(!groups.is_empty(), "a model has at least one kv group");
        for group in &groups {
            let slots = pages.saturating_mul(group.page_tokens());
            assert!(slots <= Self::MAX_SLOTS, "{slots} kv slots of {}", Self::MAX_SLOTS);
        }
        let groups =
            groups.into_iter().map(|spec| Group { spec, index: PrefixIndex::new() }).collect();
        KvSpace { pool: PagePool::new(pages), groups, seed }
    }

    pub fn groups(&self) -> impl Iterator<Item = &KvGroup> {
        self.groups.iter().map(|group| &group.spec)
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

    /// From now on free pages are taken in a random order, as after a long service.
    pub fn shuffle_pages(&mut self, seed: u64) {
        self.pool.shuffle_free(seed);
    }

    /// Pages that one sequence of `tokens` needs when it shares none.
    pub fn pages_for(&self, tokens: usize) -> usize {
        self.groups().map(|group| group.pages_for(tokens)).sum()
    }

    /// Empty key chains for a new sequence, one per group.
    pub fn new_keys(&self, salt: &str) -> Vec<PageKeys> {
        self.groups()
            .map(|group| PageKeys::new(self.seed.root(group, salt), group.page_tokens()))
            .collect()
    }

    /// The longest prefix of at most `limit` tokens that every group knows.
    pub fn longest_match(&self, keys: &[PageKeys], limit: usize) -> PrefixMatch {
        let mut pages: Vec<_> = self
            .groups
            .iter()
            .zip(keys)
            .map(|(group, keys)| {
                let keys = keys.as_slice();
                let most = keys.len().min(limit / group.spec.page_tokens());
                group.index.longest_match(&keys[..most])
            })
            .collect();
        // Pages of one group may be longer than another's: shorten until all end together.
        let mut tokens = limit;
        loop {
            let shortest = self
                .groups()
                .zip(&pages)
                .map(|(group, pages)| {
                    let page_tokens = group.page_tokens();
                    pages.len().min(tokens / page_tokens) * page_tokens
                })
                .min()
                .expect("at least one group");
            if shortest == tokens {
                break;
            }
            tokens = shortest;
        }
        for (group, pages) in self.groups.iter().zip(&mut pages) {
            pages.truncate(tokens / group.spec.page_tokens());
        }
        PrefixMatch { tokens, pages }
    }

    /// By how much `available` shrinks when `open` is called with the same arguments.
    pub fn cost_to_open(&self, matched: &PrefixMatch, tokens: usize) -> usize {
        let shared = matched.pages.iter().map(Vec::len).sum::<usize>();
        let woken = matched.pages.iter().flatten().filter(|page| self.pool.is_idle(**page)).count();
        self.pages_for(tokens) - shared + woken
    }

    /// Tables with slots for `tokens`, the first of them already filled by the match.
    pub fn open(
        &mut self,
        matched: &PrefixMatch,
        tokens: usize,
    ) -> Result<Vec<BlockTable>, OutOfPages> {
        let wanted = self.cost_to_open(matched, tokens);
        if self.available() < wanted {
            return Err(OutOfPages { wanted, free: self.available() });
        }
        let mut tables: Vec<_> = self
            .groups
            .iter()
            .zip(&matched.pages)
            .map(|(group, pages)| {
                BlockTable::with_prefix(group.spec.page_tokens(), pages, &mut self.pool)
            })
            .collect();
        let copies = self.grow(&mut tables, tokens).expect("the cost was counted");
        debug_assert!(copies.iter().all(Option::is_none), "a matched page is full");
        Ok(tables)
    }

    /// Pages that `grow` would take.
    pub fn cost_to_grow(&self, tables: &[BlockTable], tokens: usize) -> usize {
        tables
            .iter()
            .map(|table| table.pages_wanted(tokens.saturating_sub(table.len()), &self.pool))
            .sum()
    }

    /// Gives the tables slots for `tokens` in all, or takes nothing. For each group, the copy
    /// that must be made first.
    pub fn grow(
        &mut self,
        tables: &mut [BlockTable],
        tokens: usize,
    ) -> Result<Vec<Option<PageCopy>>, OutOfPages> {
        let wanted = self.cost_to_grow(tables, tokens);
        if self.available() < wanted {
            return Err(OutOfPages { wanted, free: self.available() });
        }
        self.forget_oldest(wanted.saturating_sub(self.pool.free()));
        Ok(tables
            .iter_mut()
            .map(|table| {
                let more = tokens.saturating_sub(table.len());
                table.append_slots(more, &mut self.pool).expect("the free pages were counted")
            })
            .collect())
    }

    /// Tables of a second sequence with the same past.
    pub fn fork(&mut self, tables: &[BlockTable]) -> Vec<BlockTable> {
        tables.iter().map(|table| table.fork(&mut self.pool)).collect()
    }

    /// The pages that `computed` fills are final: others may find them.
    pub fn seal(&mut self, tables: &mut [BlockTable], keys: &mut [PageKeys], computed: &[TokenId]) {
        for ((group, table), keys) in self.groups.iter_mut().zip(tables).zip(keys) {
            keys.extend(computed);
            let full = computed.len() / table.page_tokens();
            for page in table.sealed_pages()..full {
                let own = table.pages()[page];
                let kept = group.index.insert(keys.as_slice()[page], own, &mut self.pool);
                table.seal_next(kept, &mut self.pool);
            }
        }
    }

    /// Lets all pages of a sequence go.
    pub fn release(&mut self, mut tables: Vec<BlockTable>) {
        for table in &mut tables {
            table.release_all(&mut self.pool);
        }
    }

    /// Panics unless every page has exactly as many holders as tables and index entries name it.
    /// `tables` are those of all sequences, one item per table.
    pub fn check<'a>(&self, tables: impl IntoIterator<Item = &'a BlockTable>) {
        self.pool.check();
        let mut holders = vec![0; self.total()];
        for page in tables.into_iter().flat_map(BlockTable::pages) {
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

    /// Frees `pages` idle pages, those first whose last user left first.
    fn forget_oldest(&mut self, pages: usize) {
        for _ in 0..pages {
            let page = self.pool.oldest_idle().expect("the idle pages were counted");
            let keeper = self.groups.iter_mut().find(|group| group.index.keeps(page));
            let keeper = keeper.expect("an idle page is kept by one group");
            keeper.index.forget(page, &mut self.pool);
        }
    }
}

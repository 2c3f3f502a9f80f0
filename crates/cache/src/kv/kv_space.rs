//! All pages of an engine and their content, shared by many sequences: the logical side of the
//! key/value memory.
//!
//! A sequence has one kind of cache: a list of groups of layers, with their formats. It holds one
//! block table per group, all kinds over one pool. Pages that no sequence holds stay known by their
//! content until the room is needed. No bytes, no device, no clock.

use std::ops::Range;

use crate::TokenId;
use crate::kv::prefix_match::longest_match;
use crate::kv::{
    BlockTable, FoundPage, KvGroup, OutOfPages, PageCopy, PageId, PageKey, PageKeys, PagePool,
    PrefixIndex, PrefixMatch, PrefixSeed,
};
use crate::placement::{Claims, PlacementRule, Retention};

pub struct KvSpace {
    pool: PagePool,
    /// Of all groups: a key is of one group's content.
    index: PrefixIndex,
    /// Those of all kinds, one kind after the other.
    groups: Vec<KvGroup>,
    kinds: Vec<Range<usize>>,
    seed: PrefixSeed,
    /// Pages that are read by copies to come: they cannot be taken before.
    copied: Vec<PageId>,
    now_ms: u64,
}

/// Names a kind of cache inside one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(usize);

impl KindId {
    /// The kind that a space is made with.
    pub const FIRST: KindId = KindId(0);
}

impl KvSpace {
    /// Kernels address slots with 32-bit signed numbers.
    pub const MAX_SLOTS: usize = i32::MAX as usize;

    /// `groups` are those of the first kind.
    pub fn new(groups: &[KvGroup], pages: usize, seed: PrefixSeed, rule: PlacementRule) -> Self {
        let mut space = KvSpace {
            pool: PagePool::new(pages, rule),
            index: PrefixIndex::new(),
            groups: Vec::new(),
            kinds: Vec::new(),
            seed,
            copied: Vec::new(),
            now_ms: 0,
        };
        space.kind(groups);
        space
    }

    /// Time goes on, for content that stays until a given time.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// The kind with these groups, which is added where it is new.
    pub fn kind(&mut self, groups: &[KvGroup]) -> KindId {
        assert!(!groups.is_empty(), "a model has at least one kv group");
        let same = |kind: &Range<usize>| self.groups[kind.clone()] == *groups;
        if let Some(known) = self.kinds.iter().position(same) {
            return KindId(known);
        }
        for group in groups {
            let slots = self.total().saturating_mul(group.page_tokens());
            assert!(slots <= Self::MAX_SLOTS, "{slots} kv slots of {}", Self::MAX_SLOTS);
        }
        let first = self.groups.len();
        self.groups.extend_from_slice(groups);
        self.kinds.push(first..self.groups.len());
        KindId(self.kinds.len() - 1)
    }

    pub fn groups(&self, kind: KindId) -> impl Iterator<Item = &KvGroup> {
        self.groups[self.kinds[kind.0].clone()].iter()
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
    /// see it; `lower` says where content is that is not on the device.
    pub fn longest_match(
        &self,
        kind: KindId,
        keys: &[PageKeys],
        limit: usize,
        lower: impl Fn(&PageKey) -> Option<FoundPage>,
    ) -> PrefixMatch {
        let on_device = |key: &PageKey| self.index.get(key).map(FoundPage::Device);
        longest_match(self.groups(kind), keys, limit, |key| on_device(key).or_else(|| lower(key)))
    }

    /// By how much `available` shrinks when `open` is called with the same arguments.
    pub fn cost_to_open(&self, kind: KindId, matched: &PrefixMatch, slots: &[usize]) -> usize {
        let woken = matched.on_device().filter(|page| self.pool.is_idle(*page)).count();
        self.pages_for(kind, slots) - matched.entries() + matched.lower() + woken
    }

    /// Pages of a match that sequences hold now.
    pub fn used_by_others(&self, matched: &PrefixMatch) -> usize {
        matched.on_device().filter(|page| !self.pool.is_idle(*page)).count()
    }

    /// Tables with so many slots in each group, the first of them already filled by the match, as
    /// far as it is on the device. For the rest of it there are pages, not yet filled. What is used
    /// stays at least as `retention` says.
    pub fn open(
        &mut self,
        kind: KindId,
        matched: &PrefixMatch,
        slots: &[usize],
        retention: Retention,
    ) -> Result<Vec<BlockTable>, OutOfPages> {
        self.check_available(self.cost_to_open(kind, matched, slots))?;
        for page in matched.on_device() {
            self.pool.share(page);
            self.pool.retain(page, retention);
        }
        self.free_pages(self.pages_for(kind, slots) - matched.entries() + matched.lower());
        let mut tables = Vec::with_capacity(slots.len());
        let groups = self.groups[self.kinds[kind.0].clone()].iter();
        for (index, (group, slots)) in groups.zip(slots).enumerate() {
            let pool = &mut self.pool;
            let held = |found: &FoundPage| match found {
                FoundPage::Passed => None,
                FoundPage::Device(page) => Some(*page),
                FoundPage::Host(_) | FoundPage::Below(_) => {
                    Some(pool.take().expect("the cost was counted"))
                }
            };
            let pages = matched.pages[index].iter().map(held).collect();
            let mut table = BlockTable::over(group.page_tokens(), pages, matched.leading(index));
            let more = slots.saturating_sub(table.len());
            let copy = table.append_slots(more, &mut self.pool).expect("the cost was counted");
            debug_assert!(copy.is_none(), "a matched page is full");
            tables.push(table);
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
    /// others may ask for stays known; such pages cannot be taken until
    /// [`copies_planned`](Self::copies_planned).
    pub fn own(
        &mut self,
        tables: &mut [BlockTable],
        spare: &mut usize,
    ) -> Result<Vec<PageCopy>, OutOfPages> {
        self.check_available(self.cost_to_own(tables))?;
        let mut copies = Vec::new();
        for table in tables {
            // The last page first: a page is forgotten before those it builds on.
            for index in (0..table.pages().len()).rev() {
                let Some(page) = table.pages()[index] else { continue };
                let kept = self.index.keeps(page);
                if self.pool.is_shared(page) || (kept && 0 < *spare) {
                    if !self.pool.is_shared(page) {
                        *spare -= 1;
                        self.pool.share_aside(page);
                        self.copied.push(page);
                    }
                    self.free_pages(1);
                    copies.push(table.replace(index, &mut self.pool));
                } else if kept {
                    self.index.give_up(page, &mut self.pool);
                }
            }
            table.unseal();
        }
        Ok(copies)
    }

    /// No more pages are taken for the step that makes the copies.
    pub fn copies_planned(&mut self) {
        for page in std::mem::take(&mut self.copied) {
            self.pool.release(page);
        }
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

    /// The pages that `computed` fills are final: others may find them, at least as long as
    /// `retention` says. The content that became known on the device.
    pub fn seal(
        &mut self,
        tables: &mut [BlockTable],
        keys: &mut [PageKeys],
        computed: &[TokenId],
        retention: Retention,
    ) -> Vec<PageKey> {
        let mut sealed = Vec::new();
        for (table, keys) in tables.iter_mut().zip(keys) {
            keys.extend(computed);
            let full = computed.len() / table.page_tokens();
            for page in table.sealed_pages()..full {
                let key = keys.as_slice()[page];
                let is_new = self.index.get(&key).is_none();
                let own = table.pages()[page];
                sealed.extend(own.filter(|_| is_new).map(|_| key));
                let insert = |own| self.index.insert(key, own, retention, &mut self.pool);
                let kept = own.map(insert);
                table.seal_next(kept, &mut self.pool);
            }
        }
        sealed
    }

    /// The page with this content.
    pub fn find(&self, key: &PageKey) -> Option<PageId> {
        self.index.get(key)
    }

    /// What was asked for a page that is known by content.
    pub fn claims(&self, page: PageId) -> &Claims {
        self.pool.claims(page)
    }

    /// One more claim to content, if it is on the device.
    pub fn retain(&mut self, key: &PageKey, claim: Retention) {
        self.index.retain(key, claim, &mut self.pool);
    }

    /// A claim to content is given up, if it is on the device.
    pub fn withdraw(&mut self, key: &PageKey, claim: Retention) {
        self.index.withdraw(key, claim, &mut self.pool);
    }

    /// Whether a level below has the content, if it is on the device.
    pub fn set_clean(&mut self, key: &PageKey, clean: bool) {
        self.index.set_clean(key, clean, &mut self.pool);
    }

    /// Pages that can be taken without losing what no level below has.
    pub fn reserve(&self) -> usize {
        self.pool.reserve()
    }

    /// Idle pages that no level below has, those that go first before others, with their content.
    pub fn dirty_idle(&mut self, most: usize) -> Vec<(PageId, PageKey)> {
        let pages = self.pool.dirty_idle(self.now_ms, most).into_iter();
        pages.map(|page| (page, self.index.key(page).expect("an idle page is kept"))).collect()
    }

    /// A page that is known takes the place of one that was taken for its content and is not
    /// filled.
    pub fn adopt(&mut self, table: &mut BlockTable, index: usize, page: PageId) {
        self.pool.share(page);
        let taken = table.put_in_place(index, page);
        self.pool.release(taken);
    }

    /// One more holder of a page, who copies what is there and is no use of it.
    pub fn share_aside(&mut self, page: PageId) {
        self.pool.share_aside(page);
    }

    /// Lets the pages go that no token from position `next` on sees: those behind a window.
    pub fn release_passed(&mut self, kind: KindId, tables: &mut [BlockTable], next: usize) {
        let groups = self.kinds[kind.0].clone();
        for (group, table) in self.groups[groups].iter().zip(tables) {
            table.release_before(group.first_visible(next), &mut self.pool);
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
        self.index.check(&self.pool);
        for (index, holders) in holders.iter().enumerate() {
            let page = PageId(index as u32);
            let kept = u32::from(self.index.keeps(page));
            assert_eq!(self.pool.holders(page), holders + kept, "holders of page {index}");
        }
    }

    fn check_available(&self, wanted: usize) -> Result<(), OutOfPages> {
        let free = self.available();
        if free < wanted { Err(OutOfPages { wanted, free }) } else { Ok(()) }
    }

    /// Forgets idle pages until `pages` are free: those that a level below has, in the order of the
    /// placement, then others.
    fn free_pages(&mut self, pages: usize) {
        let wanted = pages.saturating_sub(self.pool.free());
        for page in self.pool.to_go(self.now_ms, wanted) {
            self.index.forget(page, &mut self.pool);
        }
    }
}

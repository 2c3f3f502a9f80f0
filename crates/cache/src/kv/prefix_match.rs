//! Content of a sequence that is known before it is computed, and on which level it is.

use crate::kv::{KvGroup, PageId, PageKey, PageKeys, StorePageId, TierId};

/// The first `tokens` of a sequence, in every group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixMatch {
    pub tokens: usize,
    /// For each group, the pages that hold them.
    pub pages: Vec<Vec<FoundPage>>,
}

/// Where a page's content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundPage {
    /// Nowhere: no later token sees it.
    Passed,
    Device(PageId),
    Host(StorePageId),
    Below(TierId),
}

impl PrefixMatch {
    /// Pages that must be taken although their content is known: it is not on the device.
    pub(super) fn lower(&self) -> usize {
        let is_lower = |page: &&FoundPage| matches!(page, FoundPage::Host(_) | FoundPage::Below(_));
        self.pages.iter().flatten().filter(is_lower).count()
    }

    pub(super) fn entries(&self) -> usize {
        self.pages.iter().map(Vec::len).sum()
    }

    pub(super) fn on_device(&self) -> impl Iterator<Item = PageId> {
        self.pages.iter().flatten().filter_map(|page| match page {
            FoundPage::Device(page) => Some(*page),
            _ => None,
        })
    }

    /// Whether all of it is on the device.
    pub fn is_on_device(&self) -> bool {
        self.lower() == 0
    }

    /// Pages of one group before the first that is not on the device.
    pub fn leading(&self, group: usize) -> usize {
        let is_there = |page: &&FoundPage| matches!(page, FoundPage::Device(_) | FoundPage::Passed);
        self.pages[group].iter().take_while(is_there).count()
    }
}

/// The longest prefix of at most `limit` tokens that every group knows, as far as later tokens see
/// it; `find` says where content is.
pub(super) fn longest_match<'a>(
    groups: impl Iterator<Item = &'a KvGroup>,
    keys: &[PageKeys],
    limit: usize,
    find: impl Fn(&PageKey) -> Option<FoundPage>,
) -> PrefixMatch {
    let known: Vec<KnownPages<'_>> =
        groups.zip(keys).map(|(group, keys)| KnownPages::of(group, keys, limit, &find)).collect();
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

/// A sequence's first full pages in one group, as far as they are known.
struct KnownPages<'a> {
    spec: &'a KvGroup,
    pages: Vec<Option<FoundPage>>,
}

impl<'a> KnownPages<'a> {
    fn of(
        spec: &'a KvGroup,
        keys: &PageKeys,
        limit: usize,
        find: &impl Fn(&PageKey) -> Option<FoundPage>,
    ) -> Self {
        let keys = keys.as_slice();
        let keys = &keys[..keys.len().min(limit / spec.page_tokens())];
        let pages = match spec.window {
            Some(_) => keys.iter().map(find).collect(),
            // What lies behind an unknown page is of no use.
            None => keys.iter().map_while(|key| find(key).map(Some)).collect(),
        };
        KnownPages { spec, pages }
    }

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

    fn visible(&self, tokens: usize) -> Vec<FoundPage> {
        let page_tokens = self.spec.page_tokens();
        let first = self.spec.first_visible(tokens) / page_tokens;
        let pages = self.pages[..tokens / page_tokens].iter().enumerate();
        let seen = pages.map(|(index, page)| page.filter(|_| first <= index));
        seen.map(|page| page.unwrap_or(FoundPage::Passed)).collect()
    }
}

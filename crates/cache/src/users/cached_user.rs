//! What is kept of one user: pages by position, and where each of them is.

use super::history_keys::{HistoryKeys, HistoryRoot};
use super::user_key::UserKey;
use crate::kv::{PageId, PageKey, StorePageId};

/// Names a user inside one cache, as long as the user is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserSlot(pub u32);

#[derive(Debug)]
pub(super) struct CachedUser {
    pub key: UserKey,
    pub root: HistoryRoot,
    /// When it was last used; the smallest leaves first.
    pub used: u64,
    /// A request runs with its pages: they stay, and nobody else changes them.
    pub running: bool,
    /// Tokens whose keys and values are there, on any level, from the first one on.
    pub length: usize,
    /// Of those tokens.
    pub ids: Vec<i64>,
    /// As many as `length` needs.
    pub pages: Vec<UserPage>,
    /// Raised whenever pages are taken off: what is under way for those before is too late.
    pub epoch: u64,
    /// As the lists know them.
    pub counts: PageCounts,
}

/// How many of a user's pages are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageCounts {
    /// No request of the user runs.
    pub is_idle: bool,
    pub tokens: usize,
    pub device: usize,
    pub host: usize,
    /// Of an idle user: pages of the device that another level has too.
    pub clean: usize,
    /// Of an idle user: pages of the device that no other level has or is getting.
    pub dirty: usize,
    /// Of an idle user: pages of the host that device and lower tiers have too.
    pub spare: usize,
}

/// One page of a history, and its copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UserPage {
    /// After the tokens that are in it.
    pub hash: u128,
    pub device: Option<PageId>,
    pub host: Option<HostCopy>,
    /// Its bytes come from a lower tier into the host's page.
    pub reading: bool,
    /// It is being copied to the host.
    pub leaving: bool,
    /// A lower tier has it, or is getting it.
    pub below: bool,
}

impl UserPage {
    /// Whether the host's copy is one that device and lower tiers have too.
    pub fn is_spare(&self) -> bool {
        let at_rest = !self.leaving && !self.reading;
        at_rest && self.host.is_some() && self.device.is_some() && self.below
    }
}

/// A copy of a page's first tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostCopy {
    pub page: StorePageId,
    pub tokens: usize,
}

impl CachedUser {
    pub fn count_pages(&self, page_tokens: usize) -> PageCounts {
        let is_idle = !self.running;
        let mut counts = PageCounts { is_idle, tokens: self.length, ..PageCounts::default() };
        for (index, page) in self.pages.iter().enumerate() {
            counts.host += usize::from(page.host.is_some());
            if page.device.is_none() {
                continue;
            }
            counts.device += 1;
            counts.spare += usize::from(is_idle && page.is_spare());
            if is_idle && self.is_elsewhere(index, page_tokens) {
                counts.clean += 1;
            } else if is_idle && !page.leaving && !page.reading {
                counts.dirty += 1;
            }
        }
        counts
    }

    /// Tokens in a page.
    pub fn tokens_in(&self, page: usize, page_tokens: usize) -> usize {
        (self.length - page * page_tokens).min(page_tokens)
    }

    /// Whether the host has all of a page.
    pub fn on_host(&self, page: usize, page_tokens: usize) -> bool {
        let it = &self.pages[page];
        let wanted = self.tokens_in(page, page_tokens);
        !it.leaving && !it.reading && it.host.is_some_and(|host| wanted <= host.tokens)
    }

    /// Whether another level than the device has all of a page.
    pub fn is_elsewhere(&self, page: usize, page_tokens: usize) -> bool {
        let is_full = self.tokens_in(page, page_tokens) == page_tokens;
        is_full && self.pages[page].below || self.on_host(page, page_tokens)
    }

    /// How much of this content is the user's: whole pages, and the last one of either if it is
    /// equal as far as it goes.
    pub fn matched(&self, keys: &HistoryKeys, ids: &[i64], page_tokens: usize) -> usize {
        if self.root != keys.root() {
            return 0;
        }
        let both = self.length.min(keys.tokens());
        let full = both / page_tokens;
        let first_other = (0..full).find(|page| self.pages[*page].hash != keys.hash(*page));
        if let Some(page) = first_other {
            return page * page_tokens;
        }
        let last = full * page_tokens..both;
        if self.ids[last.clone()] == ids[last] { both } else { full * page_tokens }
    }

    /// Whether a page with this content is being read.
    pub fn is_reading(&self, page: usize, key: &PageKey) -> bool {
        self.pages.get(page).is_some_and(|it| it.reading) && self.page_key(page) == *key
    }

    /// The content key of a page.
    pub fn page_key(&self, page: usize) -> PageKey {
        self.root.key(self.pages[page].hash)
    }
}

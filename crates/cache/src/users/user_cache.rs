//! All users of an engine and where their pages are: the logical side of the user cache.
//!
//! Nothing here knows a device, a clock or a network. What must be copied or read comes out as
//! data ([`PageMove`], pages to read and to write), and who carries it out says when it is done.
//! A request *enters* with its user, whose pages are its own until it *leaves*; so a look-up and
//! what follows from it are one step for everybody else.
//!
//! Invariant: a page is held once by its user, and once by each move or transfer under way.

use std::collections::{HashMap, VecDeque};

use super::cached_user::{CachedUser, PageCounts, UserPage, UserSlot};
use super::history_keys::{HistoryKeys, HistoryRoot};
use super::moves_under_way::{MovesUnderWay, MovingPage};
use super::user_key::UserKey;
use super::user_lists::UserLists;
use crate::kv::{Direction, PageId, PageKey, PageMove, PagePool, StorePageId};
use crate::placement::PlacementRule;

mod levels;
mod lower;
mod moves;

pub struct UserCache {
    page_tokens: usize,
    device: PagePool<PageId>,
    host: PagePool<StorePageId>,
    /// By their slots.
    users: Vec<Option<CachedUser>>,
    free_slots: Vec<UserSlot>,
    by_key: HashMap<UserKey, UserSlot>,
    /// By what the content keys of their pages begin with.
    by_prefix: HashMap<[u8; 16], UserSlot>,
    lists: UserLists,
    /// Pages that have come to the host and may be given to lower tiers.
    unwritten: VecDeque<(UserSlot, usize, PageKey)>,
    limits: UserCacheLimits,
    /// Counts uses and epochs.
    clock: u64,
    under_way: MovesUnderWay,
    counts: UserCacheCounts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserCacheLimits {
    pub page_tokens: usize,
    pub device_pages: usize,
    /// Pages of host memory; 0 for none.
    pub host_pages: usize,
    /// Whether there are tiers below the host.
    pub has_lower_tiers: bool,
    /// Tokens of users that are in lower tiers alone: beyond them the longest unused ones are
    /// forgotten here, and found there again by the content of a request.
    pub lower_tokens: usize,
}

/// The ids of a history, position by position, with their keys.
#[derive(Clone, Copy)]
pub struct HistoryContent<'a> {
    pub keys: &'a HistoryKeys,
    pub ids: &'a [i64],
}

/// What is cached of a user: on the device from a position on, in all from the first one on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedSpan {
    /// The first position that is on the device; `None` where none is.
    pub device_start: Option<usize>,
    /// Tokens on any level.
    pub length: usize,
}

/// The pages of a request's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Physical page of each logical one, as far as the history goes.
    pub table: Vec<i32>,
    /// Tokens whose keys and values are there, or come by `promotion`.
    pub cached: usize,
    /// Pages that come from the host first.
    pub promotion: Option<PageMove>,
}

/// Too many pages are in use by running requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} pages are wanted and {free} can be had while others run")]
pub struct NoRoom {
    pub wanted: usize,
    pub free: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserCacheCounts {
    /// Requests whose content differed from what was cached of their user.
    pub edited: u64,
    /// Tokens that such requests could not use.
    pub edited_tokens: u64,
    /// Tokens that were computed with another version of the model.
    pub stale_tokens: u64,
    /// Tokens that left the device and were on no level below.
    pub lost_tokens: u64,
    /// Users whose last page left.
    pub evicted_users: u64,
}

impl UserCache {
    pub fn new(limits: UserCacheLimits) -> Self {
        let UserCacheLimits { page_tokens, device_pages, host_pages, .. } = limits;
        assert!(0 < page_tokens, "a page holds at least one token");
        UserCache {
            page_tokens,
            device: PagePool::new(device_pages, PlacementRule::Lru),
            host: PagePool::new(host_pages, PlacementRule::Lru),
            users: Vec::new(),
            free_slots: Vec::new(),
            by_key: HashMap::new(),
            by_prefix: HashMap::new(),
            lists: UserLists::default(),
            unwritten: VecDeque::new(),
            limits,
            clock: 0,
            under_way: MovesUnderWay::default(),
            counts: UserCacheCounts::default(),
        }
    }

    pub fn page_tokens(&self) -> usize {
        self.page_tokens
    }

    pub fn counts(&self) -> UserCacheCounts {
        self.counts
    }

    /// Users of whom something is cached, the longest unused first.
    pub fn users(&self) -> impl DoubleEndedIterator<Item = &UserKey> {
        self.lists.by_use.values().map(|slot| &self.user(*slot).key)
    }

    /// How many users these are.
    pub fn user_count(&self) -> usize {
        self.by_key.len()
    }

    /// What is cached of a user, whatever it is of.
    pub fn span(&self, key: &UserKey) -> CachedSpan {
        self.by_key.get(key).map_or(CachedSpan::default(), |slot| self.span_of(*slot))
    }

    /// Whether a request of the user runs.
    pub fn is_running(&self, key: &UserKey) -> bool {
        self.by_key.get(key).is_some_and(|slot| self.user(*slot).running)
    }

    /// Where the chain of what is cached of a user starts.
    pub fn root(&self, key: &UserKey) -> Option<HistoryRoot> {
        self.by_key.get(key).map(|slot| self.user(*slot).root)
    }

    /// The keys of a history. Hashes of pages whose ids are the user's are taken from there: to
    /// compare ids is faster than to hash them.
    pub fn keys(&self, key: &UserKey, root: HistoryRoot, ids: &[i64]) -> HistoryKeys {
        let user = self.by_key.get(key).map(|slot| self.user(*slot));
        let Some(user) = user.filter(|user| user.root == root) else {
            return HistoryKeys::new(root, self.page_tokens, ids);
        };
        let pages = user.ids.chunks_exact(self.page_tokens).zip(ids.chunks_exact(self.page_tokens));
        let equal = pages.take_while(|(own, given)| own == given).zip(&user.pages);
        let known = equal.map(|(_, page)| page.hash);
        HistoryKeys::continued(root, self.page_tokens, ids, known)
    }

    /// The most recently used users with their ids, as many as the device has room for.
    pub fn most_recent(&self) -> Vec<(UserKey, Vec<i64>)> {
        let mut left = self.limits.device_pages * self.page_tokens;
        let users = self.lists.by_use.values().rev().map(|slot| self.user(*slot));
        let known = users.filter(|user| !user.ids.is_empty()).take_while(|user| {
            let fits = user.ids.len() <= left;
            left = left.saturating_sub(user.ids.len().next_multiple_of(self.page_tokens));
            fits
        });
        known.map(|user| (user.key.clone(), user.ids.clone())).collect()
    }

    /// The ids of what is cached of a user, position by position.
    pub fn ids(&self, key: &UserKey) -> &[i64] {
        self.by_key.get(key).map_or(&[], |slot| &self.user(*slot).ids)
    }

    /// A request begins: the user's pages are its own until it leaves. What of them is not this
    /// content is dropped. `None` while another request of the user runs.
    pub fn enter(
        &mut self,
        key: &UserKey,
        content: HistoryContent<'_>,
    ) -> Option<(UserSlot, CachedSpan)> {
        let slot = match self.by_key.get(key) {
            Some(slot) if self.user(*slot).running => return None,
            Some(slot) => *slot,
            None => self.add(key, content.keys),
        };
        self.user_mut(slot).running = true;
        if self.user(slot).root != content.keys.root() {
            self.change_root(slot, content.keys.root());
        }
        let page_tokens = self.page_tokens;
        let user = self.user(slot);
        let matched = user.matched(content.keys, content.ids, page_tokens);
        let comparable = user.length.min(content.keys.tokens());
        if matched < comparable {
            self.counts.edited += 1;
            self.counts.edited_tokens += (self.user(slot).length - matched) as u64;
            self.truncate(slot, matched);
        }
        self.recount(slot);
        let span = self.span_of(slot);
        // Of a shorter history that is known no more than itself counts.
        Some((slot, CachedSpan { length: span.length.min(content.keys.tokens()), ..span }))
    }

    /// Pages for the first `total` tokens of a user that has entered. What is not on the device
    /// comes from the host; what is on neither of the two is not cached any more.
    pub fn allocate(&mut self, slot: UserSlot, total: usize) -> Result<Prepared, NoRoom> {
        let (page_tokens, user) = (self.page_tokens, self.user(slot));
        let is_near = |(index, page): (usize, &UserPage)| {
            page.device.is_some() || user.on_host(index, page_tokens)
        };
        let near = user.pages.iter().enumerate().take_while(|it| is_near(*it)).count();
        self.truncate(slot, self.user(slot).length.min(near * page_tokens));
        let user = self.user(slot);
        let cached = user.length.min(total);
        let needed = total.div_ceil(page_tokens);
        let on_device = |page: usize| user.pages.get(page).is_some_and(|it| it.device.is_some());
        let absent: Vec<usize> = (0..needed).filter(|page| !on_device(*page)).collect();
        self.make_room(absent.len())?;
        self.touch(slot);
        let known = self.user(slot).pages.len();
        let mut coming = Vec::new();
        for index in absent {
            let page = self.device.take().expect("room was made");
            let user = self.user_mut(slot);
            if index < known {
                let host = user.pages[index].host.expect("what is cached is on the host");
                user.pages[index].device = Some(page);
                coming.push(MovingPage { index, device: page, host: host.page });
            } else {
                user.pages.resize(user.pages.len().max(index + 1), UserPage::default());
                user.pages[index].device = Some(page);
            }
        }
        self.recount(slot);
        let promotion =
            (!coming.is_empty()).then(|| self.begin_move(slot, Direction::SwapIn, coming));
        let pages = self.user(slot).pages[..needed].iter();
        let table = pages.map(|it| it.device.expect("all are on the device").0 as i32).collect();
        Ok(Prepared { table, cached, promotion })
    }

    /// A request has computed the first `total` tokens of its content, and lets its user go.
    pub fn leave(&mut self, slot: UserSlot, content: HistoryContent<'_>, total: usize) {
        let page_tokens = self.page_tokens;
        let user = self.user_mut(slot);
        user.running = false;
        if user.length < total {
            let first = user.length / page_tokens;
            for page in first..total.div_ceil(page_tokens) {
                let end = total.min((page + 1) * page_tokens);
                let hash = content.keys.hash_at(end, content.ids);
                let it = &mut user.pages[page];
                if it.hash != hash {
                    it.hash = hash;
                    it.below = false;
                }
            }
            let known = user.ids.len();
            user.ids.extend(&content.ids[known..total]);
            user.length = total;
        }
        self.shrink(slot);
    }

    /// A request lets its user go without having computed anything, or with an error, after which
    /// the pages on the device hold anything.
    pub fn leave_failed(&mut self, slot: UserSlot, device_is_lost: bool) {
        self.user_mut(slot).running = false;
        if device_is_lost {
            self.drop_device(slot, |_| true);
        }
        self.shrink(slot);
    }

    /// Everything of a user goes, on device and host. Whether there was something; a user with a
    /// request under way keeps it until that one leaves.
    pub fn remove(&mut self, key: &UserKey) -> Option<RemovedUser> {
        let slot = *self.by_key.get(key)?;
        if self.user(slot).running {
            return None;
        }
        let (length, prefix) = (self.user(slot).length, self.user(slot).root.prefix());
        self.truncate(slot, 0);
        self.forget(slot);
        Some(RemovedUser { length, prefix })
    }

    /// Everything of all users that no request runs for goes, on device and host.
    pub fn evict_all(&mut self) -> usize {
        let slots: Vec<UserSlot> = self.lists.by_use.values().copied().collect();
        let idle: Vec<_> = slots.into_iter().filter(|slot| !self.user(*slot).running).collect();
        for slot in &idle {
            self.truncate(*slot, 0);
            self.forget(*slot);
        }
        idle.len()
    }

    /// The device's copy of a user goes, as when it is evicted. A user of a running request stays.
    pub fn evict_from_device(&mut self, key: &UserKey) {
        if let Some(slot) = self.by_key.get(key).copied()
            && !self.user(slot).running
        {
            self.evict(slot);
        }
    }

    /// Pages of the device that are free.
    pub fn free_device_pages(&self) -> usize {
        self.device.free()
    }

    pub fn free_host_pages(&self) -> usize {
        self.host.free()
    }

    fn span_of(&self, slot: UserSlot) -> CachedSpan {
        let user = self.user(slot);
        let first = user.pages.iter().position(|page| page.device.is_some());
        let device_start = first.map(|page| page * self.page_tokens);
        CachedSpan {
            device_start: device_start.filter(|it| *it < user.length),
            length: user.length,
        }
    }

    /// Takes pages from users that no request runs for, the longest unused first: copies of what
    /// the host has too, and then whole users.
    fn make_room(&mut self, wanted: usize) -> Result<(), NoRoom> {
        if wanted <= self.device.free() {
            return Ok(());
        }
        let can_be_had = self.device.free() + self.lists.idle_device;
        if can_be_had < wanted {
            return Err(NoRoom { wanted, free: can_be_had });
        }
        while self.device.free() < wanted
            && let Some(slot) = self.lists.first_clean()
        {
            let page_tokens = self.page_tokens;
            let is_clean: Vec<bool> = (0..self.user(slot).pages.len())
                .map(|page| self.user(slot).is_elsewhere(page, page_tokens))
                .collect();
            self.drop_device(slot, |page| is_clean[page]);
        }
        while self.device.free() < wanted
            && let Some(slot) = self.lists.first_idle_on_device()
        {
            self.evict(slot);
        }
        match self.device.free() {
            free if wanted <= free => Ok(()),
            free => Err(NoRoom { wanted, free }),
        }
    }

    /// The device's copy of a user goes, and with it what no other level has.
    fn evict(&mut self, slot: UserSlot) {
        self.drop_device(slot, |_| true);
        self.shrink(slot);
        self.forget_lower();
    }

    /// Lets go of the device's copies of some pages.
    fn drop_device(&mut self, slot: UserSlot, drops: impl Fn(usize) -> bool) {
        let user = self.users[slot.0 as usize].as_mut().expect("the user is there");
        for (index, page) in user.pages.iter_mut().enumerate() {
            if drops(index)
                && let Some(device) = page.device.take()
            {
                self.device.release(device);
            }
        }
        self.recount(slot);
    }

    /// Shortens a user to what is there from its first token on; without any it is forgotten.
    fn shrink(&mut self, slot: UserSlot) {
        let (page_tokens, user) = (self.page_tokens, self.user(slot));
        let before = user.length;
        let mut length = 0;
        for (index, page) in user.pages.iter().enumerate() {
            let wanted = user.length.saturating_sub(index * page_tokens).min(page_tokens);
            let on_host = page.host.filter(|_| !page.leaving).map_or(0, |host| host.tokens);
            let there = match page.device {
                Some(_) => wanted,
                None if page.below && wanted == page_tokens => wanted,
                None => wanted.min(on_host),
            };
            length += there;
            if there < page_tokens {
                break;
            }
        }
        if length < before {
            // The hash of a page's first tokens is not known: they are of no use.
            length = length / page_tokens * page_tokens;
            self.counts.lost_tokens += (before - length) as u64;
        }
        self.truncate(slot, length);
        if self.user(slot).length == 0 && !self.user(slot).running {
            self.counts.evicted_users += u64::from(0 < before);
            self.forget(slot);
        }
        self.recount(slot);
    }

    /// Takes all tokens from `length` on away, with their pages.
    fn truncate(&mut self, slot: UserSlot, length: usize) {
        let pages = length.div_ceil(self.page_tokens);
        self.clock += 1;
        let epoch = self.clock;
        let user = self.users[slot.0 as usize].as_mut().expect("the user is there");
        if user.pages.len() <= pages && length == user.length {
            return;
        }
        if user.length < length {
            return;
        }
        user.epoch = epoch;
        user.length = length;
        user.ids.truncate(length);
        for page in user.pages.drain(pages.min(user.pages.len())..) {
            if let Some(device) = page.device {
                self.device.release(device);
            }
            if let Some(host) = page.host {
                self.host.release(host.page);
            }
        }
        for page in &mut user.pages {
            // Copies under way end too late to be known.
            if page.leaving {
                page.leaving = false;
                let host = page.host.take().expect("it is copied there");
                self.host.release(host.page);
            }
        }
        self.recount(slot);
    }

    fn add(&mut self, key: &UserKey, keys: &HistoryKeys) -> UserSlot {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.users.push(None);
            UserSlot(u32::try_from(self.users.len() - 1).expect("fewer users than 32 bits"))
        });
        self.clock += 1;
        let user = CachedUser {
            key: key.clone(),
            root: keys.root(),
            used: self.clock,
            running: false,
            length: 0,
            ids: Vec::new(),
            pages: Vec::new(),
            epoch: self.clock,
            counts: PageCounts::default(),
        };
        self.lists.add(&user, slot);
        self.by_prefix.insert(user.root.prefix(), slot);
        self.by_key.insert(key.clone(), slot);
        self.users[slot.0 as usize] = Some(user);
        slot
    }

    /// Nothing of what was cached is of use any more.
    fn change_root(&mut self, slot: UserSlot, root: HistoryRoot) {
        self.counts.stale_tokens += self.user(slot).length as u64;
        self.truncate(slot, 0);
        let before = std::mem::replace(&mut self.user_mut(slot).root, root);
        self.by_prefix.remove(&before.prefix());
        self.by_prefix.insert(root.prefix(), slot);
    }

    fn forget(&mut self, slot: UserSlot) {
        let user = self.users[slot.0 as usize].take().expect("the user is there");
        assert!(user.pages.is_empty(), "{} is forgotten with pages", user.key);
        self.lists.remove(&user);
        self.by_key.remove(&user.key);
        self.by_prefix.remove(&user.root.prefix());
        self.free_slots.push(slot);
    }

    /// The user becomes the last to leave.
    fn touch(&mut self, slot: UserSlot) {
        self.clock += 1;
        let now = self.clock;
        let user = self.users[slot.0 as usize].as_mut().expect("the user is there");
        self.lists.remove(user);
        user.used = now;
        self.lists.add(user, slot);
    }

    /// The user's pages have changed: sums and lists follow.
    fn recount(&mut self, slot: UserSlot) {
        let Some(user) = self.users[slot.0 as usize].as_mut() else { return };
        let counts = user.count_pages(self.page_tokens);
        if counts != user.counts {
            self.lists.change(user, slot, counts);
            user.counts = counts;
        }
    }

    fn user(&self, slot: UserSlot) -> &CachedUser {
        self.users[slot.0 as usize].as_ref().expect("the user is there")
    }

    fn user_mut(&mut self, slot: UserSlot) -> &mut CachedUser {
        self.users[slot.0 as usize].as_mut().expect("the user is there")
    }

    /// Panics unless every page has exactly as many holders as users and moves name it, and users
    /// are what they should be. `transfers` are the pages that are being read or written below.
    pub fn check(&self, transfers: impl IntoIterator<Item = StorePageId>) {
        self.device.check();
        self.host.check();
        let mut device = vec![0; self.device.total()];
        let mut host = vec![0; self.host.total()];
        for user in self.users.iter().flatten() {
            assert_eq!(self.by_key[&user.key], self.lists.by_use[&user.used], "{}", user.key);
            assert_eq!(user.counts, user.count_pages(self.page_tokens), "counts of {}", user.key);
            let pages = user.length.div_ceil(self.page_tokens);
            assert!(user.running || user.pages.len() == pages, "pages of {}", user.key);
            assert_eq!(user.ids.len(), user.length, "ids of {}", user.key);
            for page in &user.pages {
                page.device.into_iter().for_each(|it| device[it.index()] += 1);
                page.host.into_iter().for_each(|it| host[it.page.index()] += 1);
            }
        }
        self.under_way.count_holders(&mut device, &mut host);
        transfers.into_iter().for_each(|page| host[page.index()] += 1);
        for (page, holders) in device.into_iter().enumerate() {
            assert_eq!(self.device.holders(PageId(page as u32)), holders, "device page {page}");
        }
        for (page, holders) in host.into_iter().enumerate() {
            assert_eq!(self.host.holders(StorePageId(page as u32)), holders, "host page {page}");
        }
        assert_eq!(self.by_key.len(), self.lists.by_use.len(), "users by key and by use");
        assert_eq!(self.by_key.len(), self.by_prefix.len(), "users by key and by prefix");
        self.lists.check(self.users.iter().flatten());
    }
}

/// What went with a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedUser {
    /// Tokens that were cached.
    pub length: usize,
    /// What the keys of all its pages in lower tiers begin with.
    pub prefix: [u8; 16],
}

//! Pages that go down a level, and come up again.

use super::{HistoryContent, UserCache};
use crate::kv::{Direction, PageKey, PageMove, StorePageId};
use crate::users::cached_user::{HostCopy, UserPage, UserSlot};
use crate::users::lower_page::LowerPage;
use crate::users::moves_under_way::MovingPage;
use crate::users::user_key::UserKey;

impl UserCache {
    /// Pages of the device that are free, or whose content the host has too: what can be taken
    /// without losing anything.
    pub fn reserve(&self) -> usize {
        let idle = self.users.iter().flatten().filter(|user| !user.running);
        let clean = idle.map(|user| {
            let pages = user.pages.iter().enumerate();
            pages
                .take_while(|(index, _)| user.on_host(*index, self.page_tokens))
                .filter(|(_, page)| page.device.is_some())
                .count()
        });
        self.device.free() + clean.sum::<usize>()
    }

    /// Copies pages of the longest unused users to the host until the reserve is `wanted`, at most
    /// `most` pages at a time. Host memory is taken from the longest unused users whose pages are
    /// below too, or on the device.
    pub fn demote(&mut self, wanted: usize, most: usize) -> Vec<PageMove> {
        let mut moves = Vec::new();
        let coming = self.reserve() + self.under_way.leaving();
        let mut left = wanted.saturating_sub(coming).min(most);
        let slots: Vec<UserSlot> = self.by_use.values().copied().collect();
        for slot in slots {
            if left == 0 {
                break;
            }
            if !self.user(slot).running {
                let begun = self.offload(slot, 1, left);
                left -= begun.as_ref().map_or(0, |it| it.pages.len());
                moves.extend(begun);
            }
        }
        moves
    }

    /// Copies what the host has not of a user's pages there: at least `least` tokens or nothing,
    /// at most `most` pages, of which the last may be partly filled. `None` where there is nothing
    /// or no room.
    pub fn offload(&mut self, slot: UserSlot, least: usize, most: usize) -> Option<PageMove> {
        let (page_tokens, user) = (self.page_tokens, self.user(slot));
        let dirty = (0..user.pages.len()).filter(|index| {
            let page = &user.pages[*index];
            let is_free = !page.leaving && !page.reading;
            is_free && page.device.is_some() && !user.on_host(*index, page_tokens)
        });
        let dirty: Vec<usize> = dirty.take(most).collect();
        let tokens: usize = dirty.iter().map(|index| user.tokens_in(*index, page_tokens)).sum();
        if dirty.is_empty() || tokens < least {
            return None;
        }
        let mut pages = Vec::new();
        for index in dirty {
            let Some(stored) = self.take_host_page(slot) else { break };
            let tokens = self.user(slot).tokens_in(index, page_tokens);
            let page = &mut self.user_mut(slot).pages[index];
            let before = page.host.replace(HostCopy { page: stored, tokens });
            page.leaving = true;
            let device = page.device.expect("it is on the device");
            pages.push(MovingPage { index, device, host: stored });
            if let Some(before) = before {
                self.host.release(before.page);
            }
        }
        (!pages.is_empty()).then(|| self.begin_move(slot, Direction::SwapOut, pages))
    }

    /// The slot of a user of whom something is cached, and who is not running.
    pub fn idle_slot(&self, key: &UserKey) -> Option<UserSlot> {
        self.by_key.get(key).copied().filter(|slot| !self.user(*slot).running)
    }

    /// Full pages on the host that no lower tier has been given, the most recently used users
    /// first. Each is held until [`written`](Self::written).
    pub fn to_write(&mut self, most: usize) -> Vec<LowerPage> {
        let mut found = Vec::new();
        let slots: Vec<UserSlot> = self.by_use.values().rev().copied().collect();
        for slot in slots {
            for index in 0..self.user(slot).length / self.page_tokens {
                if found.len() == most {
                    return found;
                }
                let user = self.user(slot);
                let page = user.pages[index];
                if page.below || !user.on_host(index, self.page_tokens) {
                    continue;
                }
                let host = page.host.expect("it is on the host");
                let key = user.page_key(index);
                self.host.share(host.page);
                self.user_mut(slot).pages[index].below = true;
                found.push(LowerPage { slot, index, key, page: host.page });
            }
        }
        found
    }

    /// A page was given to a lower tier, which has kept it or not.
    pub fn written(&mut self, page: &LowerPage, is_kept: bool) {
        self.host.release(page.page);
        if !is_kept {
            self.set_below(page, false);
        }
    }

    /// A lower tier has given up a page of this content.
    pub fn gone_below(&mut self, key: &PageKey) {
        for slot in self.by_key.values() {
            let user = self.users[slot.0 as usize].as_mut().expect("the user is there");
            if user.root.prefix() != key.as_bytes()[..16] {
                continue;
            }
            for index in 0..user.pages.len() {
                if user.page_key(index) == *key {
                    user.pages[index].below = false;
                }
            }
        }
    }

    /// Pages behind what is cached of a user that has entered, as far as `is_below` knows them one
    /// after the other: they become the user's, with host pages to read them into.
    pub fn find_below(
        &mut self,
        slot: UserSlot,
        content: HistoryContent<'_>,
        is_below: impl Fn(&PageKey) -> bool,
    ) -> Vec<LowerPage> {
        let page_tokens = self.page_tokens;
        let mut found = Vec::new();
        if !self.user(slot).length.is_multiple_of(page_tokens) {
            return found;
        }
        for index in self.user(slot).length / page_tokens..content.keys.full_pages() {
            let key = content.keys.key(index);
            if !is_below(&key) {
                break;
            }
            let Some(page) = self.take_host_page(slot) else { break };
            self.host.share(page);
            let host = Some(HostCopy { page, tokens: page_tokens });
            let hash = content.keys.hash(index);
            let it = UserPage { hash, host, reading: true, below: true, ..UserPage::default() };
            let user = self.user_mut(slot);
            user.pages.truncate(index);
            user.pages.push(it);
            user.length += page_tokens;
            user.ids.extend(&content.ids[index * page_tokens..user.length]);
            found.push(LowerPage { slot, index, key, page });
        }
        // Pages whose host copies were given up for others' are read again.
        for index in 0..self.user(slot).pages.len() {
            let it = self.user(slot).pages[index];
            if it.device.is_none() && it.host.is_none() {
                let Some(page) = self.take_host_page(slot) else { break };
                self.host.share(page);
                let key = self.user(slot).page_key(index);
                let it = &mut self.user_mut(slot).pages[index];
                it.host = Some(HostCopy { page, tokens: page_tokens });
                it.reading = true;
                found.push(LowerPage { slot, index, key, page });
            }
        }
        found
    }

    /// Pages were read into host memory, or were not there any more, which shortens the user.
    pub fn read(&mut self, pages: &[(LowerPage, bool)]) {
        let mut slots = Vec::new();
        for (page, _) in pages {
            self.host.release(page.page);
        }
        for (page, is_there) in pages {
            let user = self.users[page.slot.0 as usize].as_mut();
            let Some(user) = user.filter(|user| user.is_reading(page.index, &page.key)) else {
                continue;
            };
            let it = &mut user.pages[page.index];
            it.reading = false;
            if !is_there {
                it.below = false;
                let host = it.host.take().expect("it was read there");
                self.host.release(host.page);
            }
            slots.push(page.slot);
        }
        slots.dedup();
        for slot in slots {
            self.shrink(slot);
        }
    }

    fn set_below(&mut self, page: &LowerPage, below: bool) {
        if let Some(user) = &mut self.users[page.slot.0 as usize]
            && user.pages.get(page.index).is_some()
            && user.page_key(page.index) == page.key
        {
            user.pages[page.index].below = below;
        }
    }

    /// A page of host memory, if need be one of the longest unused user that has it elsewhere too,
    /// or else of the longest unused user at all; never of `asking` or of one that runs.
    fn take_host_page(&mut self, asking: UserSlot) -> Option<StorePageId> {
        if let Some(page) = self.host.take() {
            return Some(page);
        }
        let others = self.by_use.values().copied();
        let others = others.filter(|slot| *slot != asking && !self.user(*slot).running);
        let others: Vec<UserSlot> = others.collect();
        for (slot, may_lose) in
            others.iter().map(|slot| (*slot, false)).chain(others.iter().map(|slot| (*slot, true)))
        {
            if self.drop_host_page(slot, may_lose) {
                // Who else holds it may keep it for a while.
                if let Some(page) = self.host.take() {
                    return Some(page);
                }
            }
        }
        None
    }

    /// Gives the last host copy of a user up that is on the device or below too, or any.
    fn drop_host_page(&mut self, slot: UserSlot, may_lose: bool) -> bool {
        let user = self.user(slot);
        let spare = |page: &UserPage| {
            page.host.is_some()
                && !page.leaving
                && !page.reading
                && (may_lose || page.device.is_some() || page.below)
        };
        let Some(index) = user.pages.iter().rposition(spare) else { return false };
        let it = &mut self.user_mut(slot).pages[index];
        let host = it.host.take().expect("it was found");
        self.host.release(host.page);
        if may_lose {
            self.shrink(slot);
        }
        true
    }
}

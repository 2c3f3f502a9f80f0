//! Pages that go down a level, and come up again.

use super::UserCache;
use crate::kv::{Direction, PageMove, StorePageId};
use crate::users::cached_user::{HostCopy, UserPage, UserSlot};
use crate::users::moves_under_way::MovingPage;
use crate::users::user_key::UserKey;

/// Users that are looked at for a page of host memory.
const LOOKED_AT: usize = 32;

impl UserCache {
    /// Pages of the device that are free, or whose content another level has too: what can be taken
    /// without losing anything.
    pub fn reserve(&self) -> usize {
        self.device.free() + self.lists.clean_pages
    }

    /// Copies pages of the longest unused users to the host until the reserve is `wanted`, at most
    /// `most` pages at a time. Host memory is taken from the longest unused users whose pages are
    /// below too, or on the device.
    pub fn demote(&mut self, wanted: usize, most: usize) -> Vec<PageMove> {
        let mut moves = Vec::new();
        let coming = self.reserve() + self.under_way.leaving();
        let mut left = wanted.saturating_sub(coming).min(most);
        // Each offload takes a user from the list, or part of it, or finds no room.
        while 0 < left
            && let Some(slot) = self.lists.first_dirty()
            && let Some(begun) = self.offload(slot, 1, left)
        {
            left -= begun.pages.len();
            moves.push(begun);
        }
        moves
    }

    /// Copies what no other level has of a user's pages to the host: at least `least` tokens or
    /// nothing, at most `most` pages, of which the last may be partly filled. `None` where there is
    /// nothing or no room.
    pub fn offload(&mut self, slot: UserSlot, least: usize, most: usize) -> Option<PageMove> {
        let (page_tokens, user) = (self.page_tokens, self.user(slot));
        let dirty = (0..user.pages.len()).filter(|index| {
            let page = &user.pages[*index];
            let is_free = !page.leaving && !page.reading;
            is_free && page.device.is_some() && !user.is_elsewhere(*index, page_tokens)
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
        self.recount(slot);
        (!pages.is_empty()).then(|| self.begin_move(slot, Direction::SwapOut, pages))
    }

    /// The slot of a user of whom something is cached, and who is not running.
    pub fn idle_slot(&self, key: &UserKey) -> Option<UserSlot> {
        self.by_key.get(key).copied().filter(|slot| !self.user(*slot).running)
    }

    /// A page of host memory: if need be a copy that is on the device and below too, or one of
    /// the longest unused users that have it elsewhere, or of the longest unused one at all; never
    /// of `asking` or of one that runs.
    pub(super) fn take_host_page(&mut self, asking: UserSlot) -> Option<StorePageId> {
        if let Some(page) = self.host.take() {
            return Some(page);
        }
        if let Some(slot) = self.lists.last_spare()
            && self.drop_host_page(slot, UserPage::is_spare)
            && let Some(page) = self.host.take()
        {
            return Some(page);
        }
        let others = self.lists.idle_on_host().filter(|slot| *slot != asking);
        let others: Vec<UserSlot> = others.take(LOOKED_AT).collect();
        let is_elsewhere = |page: &UserPage| page.device.is_some() || page.below;
        let losing = others.iter().map(|slot| (*slot, true));
        for (slot, may_lose) in others.iter().map(|slot| (*slot, false)).chain(losing) {
            // Who else holds the page may keep it for a while.
            if self.drop_host_page(slot, |page| may_lose || is_elsewhere(page))
                && let Some(page) = self.host.take()
            {
                return Some(page);
            }
        }
        None
    }

    /// Gives up the last host copy of a user that may go.
    fn drop_host_page(&mut self, slot: UserSlot, may_go: impl Fn(&UserPage) -> bool) -> bool {
        let at_rest = |page: &UserPage| page.host.is_some() && !page.leaving && !page.reading;
        let pages = &self.user(slot).pages;
        let Some(index) = pages.iter().rposition(|page| at_rest(page) && may_go(page)) else {
            return false;
        };
        let it = &mut self.user_mut(slot).pages[index];
        let host = it.host.take().expect("it was found");
        self.host.release(host.page);
        self.shrink(slot);
        self.forget_lower();
        true
    }
}

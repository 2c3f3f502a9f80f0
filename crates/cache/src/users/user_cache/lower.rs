//! Pages in the tiers below the host: written there, found there, read from there.

use super::{HistoryContent, UserCache};
use crate::kv::PageKey;
use crate::users::cached_user::{HostCopy, UserPage, UserSlot};
use crate::users::lower_page::LowerPage;

impl UserCache {
    /// Full pages on the host that no lower tier has been given, those that came first. Each is
    /// held until [`written`](Self::written).
    pub fn to_write(&mut self, most: usize) -> Vec<LowerPage> {
        let (mut found, mut touched) = (Vec::new(), Vec::new());
        while found.len() < most
            && let Some((slot, index, key)) = self.unwritten.pop_front()
        {
            let Some(user) = self.users[slot.0 as usize].as_mut() else { continue };
            let is_there = index < user.length / self.page_tokens
                && user.on_host(index, self.page_tokens)
                && user.page_key(index) == key;
            if !is_there || user.pages[index].below {
                continue;
            }
            user.pages[index].below = true;
            touched.push(slot);
            let host = user.pages[index].host.expect("it is on the host");
            self.host.share(host.page);
            found.push(LowerPage { slot, index, key, page: host.page });
        }
        touched.dedup();
        touched.into_iter().for_each(|slot| self.recount(slot));
        found
    }

    /// All full pages on the host that no lower tier has are to be written: before an end, or
    /// where a tier is back.
    pub fn write_all(&mut self) {
        let slots: Vec<UserSlot> = self.lists.by_use.values().copied().collect();
        slots.into_iter().for_each(|slot| self.want_written(slot, |_| true));
    }

    /// Some pages of a user have come to the host.
    pub(super) fn want_written(&mut self, slot: UserSlot, are: impl Fn(usize) -> bool) {
        let user = self.users[slot.0 as usize].as_ref().expect("the user is there");
        let full = (0..user.length / self.page_tokens).filter(|index| are(*index));
        let new = full
            .filter(|index| !user.pages[*index].below && user.on_host(*index, self.page_tokens));
        self.unwritten.extend(new.map(|index| (slot, index, user.page_key(index))));
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
        let prefix: [u8; 16] = key.as_bytes()[..16].try_into().expect("a key is longer");
        let Some(slot) = self.by_prefix.get(&prefix).copied() else { return };
        let user = self.user_mut(slot);
        for index in 0..user.pages.len() {
            if user.page_key(index) == *key {
                user.pages[index].below = false;
            }
        }
        match self.user(slot).running {
            true => self.recount(slot),
            false => self.shrink(slot),
        }
    }

    /// Lower tiers have nothing of anybody any more.
    pub fn all_gone_below(&mut self) {
        let slots: Vec<UserSlot> = self.lists.by_use.values().copied().collect();
        for slot in slots {
            self.user_mut(slot).pages.iter_mut().for_each(|page| page.below = false);
            if !self.user(slot).running {
                self.shrink(slot);
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
        self.recount(slot);
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

    /// Of users in lower tiers alone only so many are known here.
    pub(super) fn forget_lower(&mut self) {
        while self.limits.lower_tokens < self.lists.lower_tokens
            && let Some(slot) = self.lists.first_lower()
        {
            self.truncate(slot, 0);
            self.forget(slot);
        }
    }

    fn set_below(&mut self, page: &LowerPage, below: bool) {
        if let Some(user) = &mut self.users[page.slot.0 as usize]
            && user.pages.get(page.index).is_some()
            && user.page_key(page.index) == page.key
        {
            user.pages[page.index].below = below;
            match user.running {
                true => self.recount(page.slot),
                false => self.shrink(page.slot),
            }
        }
    }
}

//! A plain model of the original's page manager: free pages first in, first out; users evicted
//! oldest first, and dropped.

use std::collections::{BTreeMap, VecDeque};

pub struct PlainPolicy {
    page: usize,
    free: VecDeque<i64>,
    /// Oldest first.
    order: Vec<i64>,
    users: BTreeMap<i64, PlainUser>,
}

#[derive(Clone, Debug, Default)]
pub struct PlainUser {
    pub pages: Vec<i64>,
    pub start: usize,
    pub length: usize,
    pub offloaded: usize,
    pub locked: bool,
}

impl PlainPolicy {
    pub fn new(page: usize, pages: usize) -> Self {
        let free = (0..pages as i64).collect();
        PlainPolicy { page, free, order: Vec::new(), users: BTreeMap::new() }
    }

    pub fn users(&self) -> &BTreeMap<i64, PlainUser> {
        &self.users
    }

    pub fn order(&self) -> &[i64] {
        &self.order
    }

    pub fn free(&self) -> Vec<i64> {
        self.free.iter().copied().collect()
    }

    /// Start and length on the device.
    pub fn look_up(&self, user: i64) -> (usize, usize) {
        self.users.get(&user).map_or((0, 0), |user| (user.start, user.length))
    }

    /// The cached lengths and the pages of a batch.
    pub fn allocate(
        &mut self,
        batch: &[i64],
        total: &[usize],
        host: &[usize],
    ) -> (Vec<usize>, Vec<Vec<i64>>) {
        let mut cached = Vec::new();
        for (user, host) in batch.iter().zip(host) {
            let known = self.users.get(user);
            if known.is_some_and(|known| *host < known.start) {
                self.evict(*user);
            }
            let known = self.users.get_mut(user);
            cached.push(known.map_or(*host, |known| {
                known.offloaded = *host;
                (*host).max(known.start + known.length)
            }));
        }
        let mut tables = Vec::new();
        for ((user, total), host) in batch.iter().zip(total).zip(host) {
            self.order.retain(|other| other != user);
            self.order.push(*user);
            let known = self.users.entry(*user).or_default().clone();
            let onload = match known.pages.is_empty() {
                true => host.div_ceil(self.page),
                false => known.start / self.page,
            };
            let needed = total.div_ceil(self.page);
            self.make_room(needed - known.pages.len(), batch);
            let mut pages: Vec<i64> = self.free.drain(..onload).collect();
            pages.extend(&known.pages);
            let more = needed - pages.len();
            pages.extend(self.free.drain(..more));
            tables.push(pages.clone());
            let offloaded = *host;
            let locked = known.locked;
            let user_now = PlainUser { pages, start: 0, length: *total, offloaded, locked };
            self.users.insert(*user, user_now);
        }
        (cached, tables)
    }

    pub fn evict(&mut self, user: i64) {
        if let Some(gone) = self.users.remove(&user) {
            self.free.extend(gone.pages);
            self.order.retain(|other| *other != user);
        }
    }

    pub fn offloaded(&mut self, user: i64, end: usize) {
        if let Some(user) = self.users.get_mut(&user) {
            user.offloaded = end;
        }
    }

    fn make_room(&mut self, wanted: usize, batch: &[i64]) {
        let others: Vec<i64> = (self.order.iter())
            .filter(|user| !batch.contains(user) && !self.users[user].locked)
            .copied()
            .collect();
        for user in &others {
            if wanted <= self.free.len() {
                return;
            }
            let it = self.users.get_mut(user).expect("it is in the order");
            let gone = (it.offloaded.saturating_sub(it.start) / self.page).min(it.pages.len());
            self.free.extend(it.pages.drain(..gone));
            it.length = it.length.saturating_sub(gone * self.page);
            it.start += gone * self.page;
            if it.pages.is_empty() {
                self.users.remove(user);
                self.order.retain(|other| other != user);
            }
        }
        for user in others {
            if wanted <= self.free.len() {
                return;
            }
            self.evict(user);
        }
    }
}

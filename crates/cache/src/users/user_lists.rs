//! Users by when they were last used, in lists by what can be taken from them.
//!
//! A request must not look at all users to find the one that leaves: each list has those that it
//! is asked for, and sums are kept.

use std::collections::BTreeMap;

use super::cached_user::{CachedUser, PageCounts, UserSlot};

/// The longest unused first.
type ByUse = BTreeMap<u64, UserSlot>;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UserLists {
    pub by_use: ByUse,
    /// Idle users with pages on the device, of these with pages on another level too, and with
    /// pages on the device alone.
    idle_on_device: ByUse,
    clean: ByUse,
    dirty: ByUse,
    /// Idle users with pages on the host, and of these with some that are on the device and
    /// below too.
    idle_on_host: ByUse,
    spare: ByUse,
    /// Idle users with pages in lower tiers alone.
    lower: ByUse,
    /// Pages of idle users that are on the device, and of these on another level too.
    pub idle_device: usize,
    pub clean_pages: usize,
    /// Tokens of users in lower tiers alone.
    pub lower_tokens: usize,
}

impl UserLists {
    pub fn add(&mut self, user: &CachedUser, slot: UserSlot) {
        self.by_use.insert(user.used, slot);
        self.put(user.used, slot, &PageCounts::default(), &user.counts);
    }

    pub fn remove(&mut self, user: &CachedUser) {
        let slot = self.by_use.remove(&user.used).expect("every user is in it");
        self.put(user.used, slot, &user.counts, &PageCounts::default());
    }

    /// A user's pages are others than before.
    pub fn change(&mut self, user: &CachedUser, slot: UserSlot, now: PageCounts) {
        self.put(user.used, slot, &user.counts, &now);
    }

    fn put(&mut self, used: u64, slot: UserSlot, before: &PageCounts, now: &PageCounts) {
        let lists = [
            &mut self.idle_on_device,
            &mut self.clean,
            &mut self.dirty,
            &mut self.idle_on_host,
            &mut self.spare,
            &mut self.lower,
        ];
        let (is_in, was_in) = (memberships(now), memberships(before));
        for (list, (is_in, was_in)) in lists.into_iter().zip(is_in.into_iter().zip(was_in)) {
            match (was_in, is_in) {
                (false, true) => drop(list.insert(used, slot)),
                (true, false) => drop(list.remove(&used)),
                _ => {}
            }
        }
        let device = |counts: &PageCounts| if counts.is_idle { counts.device } else { 0 };
        self.idle_device = self.idle_device + device(now) - device(before);
        self.clean_pages = self.clean_pages + now.clean - before.clean;
        self.lower_tokens = self.lower_tokens + lower_tokens(now) - lower_tokens(before);
    }

    pub fn first_clean(&self) -> Option<UserSlot> {
        self.clean.values().next().copied()
    }

    pub fn first_idle_on_device(&self) -> Option<UserSlot> {
        self.idle_on_device.values().next().copied()
    }

    /// The last that will need its copies on the host.
    pub fn last_spare(&self) -> Option<UserSlot> {
        self.spare.values().next_back().copied()
    }

    pub fn first_lower(&self) -> Option<UserSlot> {
        self.lower.values().next().copied()
    }

    pub fn first_dirty(&self) -> Option<UserSlot> {
        self.dirty.values().next().copied()
    }

    pub fn idle_on_host(&self) -> impl Iterator<Item = UserSlot> {
        self.idle_on_host.values().copied()
    }

    /// Panics unless the lists are those of the users.
    pub fn check<'a>(&self, users: impl Iterator<Item = &'a CachedUser>) {
        let mut again = UserLists::default();
        for user in users {
            again.add(user, self.by_use[&user.used]);
        }
        assert_eq!(*self, again, "lists of users");
    }
}

/// In the order of the lists.
fn memberships(counts: &PageCounts) -> [bool; 6] {
    let idle = counts.is_idle;
    [
        idle && 0 < counts.device,
        0 < counts.clean,
        0 < counts.dirty,
        idle && 0 < counts.host,
        0 < counts.spare,
        0 < lower_tokens(counts),
    ]
}

fn lower_tokens(counts: &PageCounts) -> usize {
    if counts.is_idle && counts.device + counts.host == 0 { counts.tokens } else { 0 }
}

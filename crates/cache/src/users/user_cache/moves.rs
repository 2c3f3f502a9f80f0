//! Pages that are copied between device and host.

use super::UserCache;
use crate::kv::{Direction, MoveId, PageMove};
use crate::users::cached_user::UserSlot;
use crate::users::moves_under_way::{Moving, MovingPage};

impl UserCache {
    /// Whether nothing is on its way.
    pub fn is_settled(&self) -> bool {
        self.under_way.is_empty()
    }

    /// A move has arrived.
    pub fn arrived(&mut self, id: MoveId) {
        let moving = self.under_way.end(id);
        self.release_moved(&moving);
        if let (Some(user), Direction::SwapOut) = (self.mover(&moving), moving.direction) {
            moving.pages.iter().for_each(|page| user.pages[page.index].leaving = false);
            self.recount(moving.slot);
            if self.limits.has_lower_tiers {
                let moved = |index: usize| moving.pages.iter().any(|page| page.index == index);
                self.want_written(moving.slot, moved);
            }
        }
    }

    /// All moves under way are lost: nothing follows from them, and the caller has dropped what
    /// they were for.
    pub fn moves_lost(&mut self) {
        for moving in self.under_way.end_all() {
            self.release_moved(&moving);
            let Some(user) = self.mover(&moving) else { continue };
            let (mut lost, mut lost_host) = (Vec::new(), Vec::new());
            for page in &moving.pages {
                let it = &mut user.pages[page.index];
                match moving.direction {
                    Direction::SwapOut => {
                        it.leaving = false;
                        lost_host.extend(it.host.take());
                    }
                    Direction::SwapIn => lost.extend(it.device.take()),
                }
            }
            lost.into_iter().for_each(|page| self.device.release(page));
            lost_host.iter().for_each(|host| self.host.release(host.page));
            self.recount(moving.slot);
        }
    }

    /// Pages of a user are copied.
    pub(super) fn begin_move(
        &mut self,
        slot: UserSlot,
        direction: Direction,
        pages: Vec<MovingPage>,
    ) -> PageMove {
        for page in &pages {
            self.device.share(page.device);
            self.host.share(page.host);
        }
        let pairs = pages.iter().map(|page| (page.device, page.host)).collect();
        let epoch = self.user(slot).epoch;
        let id = self.under_way.begin(Moving { direction, slot, epoch, pages });
        PageMove { id, direction, pages: pairs }
    }

    fn release_moved(&mut self, moving: &Moving) {
        for page in &moving.pages {
            self.device.release(page.device);
            self.host.release(page.host);
        }
    }

    /// The user of a move, if its pages are still those that it was for.
    fn mover(&mut self, moving: &Moving) -> Option<&mut crate::users::cached_user::CachedUser> {
        let user = self.users[moving.slot.0 as usize].as_mut();
        user.filter(|user| user.epoch == moving.epoch)
    }
}

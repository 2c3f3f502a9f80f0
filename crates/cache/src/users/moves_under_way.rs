//! Copies between device and host that have not arrived.

use std::collections::HashMap;

use super::cached_user::UserSlot;
use crate::kv::{Direction, MoveId, PageId, StorePageId};

#[derive(Default)]
pub(super) struct MovesUnderWay {
    next_id: u64,
    moves: HashMap<MoveId, Moving>,
}

/// A move holds its pages on both sides.
pub(super) struct Moving {
    pub direction: Direction,
    pub slot: UserSlot,
    /// Of the user when it began.
    pub epoch: u64,
    pub pages: Vec<MovingPage>,
}

#[derive(Clone, Copy)]
pub(super) struct MovingPage {
    /// Which of the user's.
    pub index: usize,
    pub device: PageId,
    pub host: StorePageId,
}

impl MovesUnderWay {
    pub fn begin(&mut self, moving: Moving) -> MoveId {
        self.next_id += 1;
        let id = MoveId(self.next_id);
        self.moves.insert(id, moving);
        id
    }

    pub fn end(&mut self, id: MoveId) -> Moving {
        self.moves.remove(&id).expect("the move is under way")
    }

    /// All of them end.
    pub fn end_all(&mut self) -> Vec<Moving> {
        std::mem::take(&mut self.moves).into_values().collect()
    }

    pub fn count_holders(&self, device: &mut [u32], host: &mut [u32]) {
        for page in self.moves.values().flat_map(|it| &it.pages) {
            device[page.device.index()] += 1;
            host[page.host.index()] += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }

    /// Pages that are being copied to the host.
    pub fn leaving(&self) -> usize {
        let leaving = self.moves.values().filter(|it| it.direction == Direction::SwapOut);
        leaving.map(|it| it.pages.len()).sum()
    }
}

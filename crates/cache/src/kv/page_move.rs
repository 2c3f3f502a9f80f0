//! Pages on their way between the device and the store, as data.

use crate::kv::{PageId, StorePageId};

/// Names a move inside one engine; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MoveId(pub u64);

/// Pages to copy while steps go on. Until the move has arrived nobody else writes the one side or
/// looks at the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageMove {
    pub id: MoveId,
    pub direction: Direction,
    pub pages: Vec<(PageId, StorePageId)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the device to the store.
    SwapOut,
    /// From the store to the device.
    SwapIn,
}

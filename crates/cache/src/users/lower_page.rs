//! Pages of users in the tiers below host memory.

use super::cached_user::UserSlot;
use crate::kv::{PageKey, StorePageId};

/// A full page in host memory, and its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowerPage {
    pub slot: UserSlot,
    /// Which of the user's.
    pub index: usize,
    pub key: PageKey,
    pub page: StorePageId,
}

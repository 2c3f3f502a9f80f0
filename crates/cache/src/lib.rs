//! What is kept of a sequence: pages of keys and values, who holds them, and which tokens stay.
//!
//! Pool, block table and prefix index know ids only; [`KvBuffer`] alone knows bytes. A [`policy`]
//! is a rule over slots and knows no bytes either; [`placement`] says which entry of a full level
//! of memory leaves first. Nothing here knows a model or a clock, so all of it but the buffer runs
//! in a simulator. [`reference`] joins rules, formats and attention in plain arrays: what a serving
//! engine is held to.

#![forbid(unsafe_code)]

pub mod golden;
mod kv;
pub mod placement;
pub mod policy;
pub mod reference;
pub mod users;

pub use kv::{
    BlockTable, Direction, FoundPage, KindId, KvBuffer, KvGroup, KvSpace, LowerTiers, MoveId,
    OutOfPages, PageCopy, PageId, PageKey, PageKeys, PageMove, PageNumber, PagePool, PrefixIndex,
    PrefixMatch, PrefixSeed, SlotId, StorePageId, StoreSpace, TierDone, TierId, TierTask, TierWork,
    WorkId, WrittenPage,
};

/// A token of the model's vocabulary.
pub type TokenId = u32;

//! What is kept of a sequence: pages of keys and values, who holds them, and which tokens stay.
//!
//! Pool, block table and prefix index know ids only; [`KvBuffer`] alone knows bytes. A [`policy`]
//! is a rule over slots and knows no bytes either. Nothing here knows a model or a clock, so all of
//! it but the buffer runs in a simulator. [`reference`] joins rules, formats and attention in plain
//! arrays: what a serving engine is held to.

#![forbid(unsafe_code)]

pub mod golden;
mod kv;
pub mod policy;
pub mod reference;

pub use kv::{
    BlockTable, Direction, KindId, KvBuffer, KvGroup, KvSpace, MoveId, OutOfPages, PageCopy,
    PageId, PageKey, PageKeys, PageMove, PagePool, PrefixIndex, PrefixMatch, PrefixSeed, SlotId,
    StorePageId, StoreSpace,
};

/// A token of the model's vocabulary.
pub type TokenId = u32;

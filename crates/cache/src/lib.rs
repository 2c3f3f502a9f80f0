//! What is kept of a sequence: pages of keys and values, and who holds them.
//!
//! Pool, block table and prefix index know ids only; [`KvBuffer`] alone knows bytes. Nothing here
//! knows a model, a policy's score or a clock, so all of it but the buffer runs in a simulator.

#![forbid(unsafe_code)]

mod kv;

pub use kv::{
    BlockTable, KvBuffer, KvGroup, KvSpace, OutOfPages, PageCopy, PageId, PageKey, PageKeys,
    PagePool, PrefixIndex, PrefixMatch, PrefixSeed, SlotId,
};

/// A token of the model's vocabulary.
pub type TokenId = u32;

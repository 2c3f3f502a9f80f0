//! Bytes that have left the device: the store of pages, and how they get there and back.
//!
//! Which page goes where is decided elsewhere, as [`PageMove`](terrace_cache::PageMove)s; here they
//! are carried out. Host memory is the only tier.

#![forbid(unsafe_code)]

mod page_store;
mod tier_executor;

pub use page_store::{PageStore, Wait};
pub use tier_executor::{TierExecutor, Wake};

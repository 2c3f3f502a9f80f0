//! The different keys of a batch, and which of them each key is.
//!
//! Roofline: a batch of keys read a few times and written once, from caches.

pub(crate) mod cuda;
pub(crate) mod reference;

pub use cuda::DedupeArgs;
pub use reference::dedupe_keys;

//! Rows by key and by index: what look-ups of embedding rows are made of.

mod by_width;
pub(crate) mod dedupe_keys;
pub(crate) mod expand_rows;
pub(crate) mod gather_ops;
pub(crate) mod hot_cache;
pub(crate) mod pool_cached;

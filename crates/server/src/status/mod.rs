//! Routes about the server itself: its index page, version, health, caches and sessions. Numbers
//! for Prometheus are in `metrics`.

pub mod cached_sequences;
pub mod health;
pub mod index_page;
mod kv_levels;
pub mod sessions;
pub mod version;

//! `/v1/kv_cache/handles`: KV caches that users keep by name.
//!
//! A handle is made of a prompt, a conversation or a response (`create.rs`), looked at, changed and
//! deleted (`stored.rs`), and travels as a file (`transfer.rs`). How a request goes on from one is
//! `language/past.rs`. Handles are the engines' own; a caller sees those of its key alone.

mod body_pipe;
pub mod create;
mod handle_request;
mod handle_shape;
mod recent_responses;
pub mod stored;
pub mod transfer;

pub use recent_responses::{RecentResponse, RecentResponses};

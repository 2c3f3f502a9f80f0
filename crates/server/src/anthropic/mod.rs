//! Anthropic's Messages API: `/v1/messages` and `/v1/messages/count_tokens`.
//!
//! A request is read into this server's own terms: what both routes read (`messages_prompt.rs`) is
//! made of turns (`turns.rs`) of blocks (`block.rs`), tools (`tools.rs`) and the options about
//! thinking and the output's format (`output_fields.rs`). Outputs become content blocks, whole or
//! streamed (`message_writer.rs`, `*_shape.rs`). Errors are worded by one file for all of it, the
//! key check included (`errors.rs`).

mod block;
pub mod count_tokens;
mod errors;
mod event_shape;
mod message_shape;
mod message_writer;
pub mod messages;
mod messages_prompt;
mod output_fields;
mod tools;
mod turns;

pub use errors::{ErrorShape, reword_errors};

use crate::api_error::ApiError;

/// A field whose value is not one of those that are known.
fn unknown_value(path: &str, found: &str, known: &str) -> ApiError {
    ApiError::invalid(path, format!("{path} is {found:?}: it must be {known}"))
}

//! OpenAI's Responses API: `/v1/responses`.
//!
//! What goes in and what comes out are items (`item.rs`). A request's items are read (`input.rs`),
//! joined to those of stored responses (`context.rs`) and become the messages of a chat
//! (`transcript.rs`); what it decodes becomes items again (`response_writer.rs`), whole or as
//! events (`response_frames.rs`). Responses are kept in memory within bounds (`response_store.rs`).

mod context;
pub mod create;
mod input;
mod item;
mod open_item;
mod request_echo;
mod response_frames;
mod response_request;
mod response_shape;
mod response_store;
mod response_tools;
mod response_writer;
pub mod stored;
mod stream_event;
mod text_format;
mod transcript;

pub use response_store::ResponseStore;

//! Chat in this server's own terms, whatever API it was asked in.
//!
//! A route reads its API's fields into a [`ChatRequest`], starts it, and writes the
//! [`ChatOutputs`] that come in its API's shapes: whole messages, or pieces as they are decoded.

mod chat_outputs;
mod chat_piece;
mod chat_request;
mod conversation;
mod output_reader;
mod reasoning_reader;
mod whole_message;

pub use chat_outputs::ChatOutputs;
pub use chat_piece::{ChatFinish, ChatPiece};
pub use chat_request::ChatRequest;
pub use conversation::{Conversation, take_effort, take_render_options};
pub use output_reader::OutputPart;
pub use reasoning_reader::is_thinking_template;
pub use whole_message::{WholeCall, WholeMessage};

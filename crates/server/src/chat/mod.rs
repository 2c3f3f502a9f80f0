//! Chat in this server's own terms, whatever API the request came in.
//!
//! A route reads its API's fields into a [`ChatRequest`], starts it, and writes the
//! [`ChatOutputs`] that come in its API's shapes: whole messages, or deltas as they are decoded.

mod chat_delta;
mod chat_outputs;
mod chat_request;
mod conversation;
mod output_reader;
mod reasoning_reader;
mod rendered_prompt;
mod whole_message;

pub use chat_delta::{ChatDelta, ChatFinish};
pub use chat_outputs::ChatOutputs;
pub use chat_request::ChatRequest;
pub use conversation::{Conversation, take_effort, take_render_options};
pub use output_reader::OutputSegment;
pub use reasoning_reader::is_thinking_template;
pub use rendered_prompt::rendered_prompt;
pub use whole_message::{WholeCall, WholeMessage};

#[cfg(test)]
pub mod test_segments;

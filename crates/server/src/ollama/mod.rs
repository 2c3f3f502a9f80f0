//! Ollama's routes, over the same chats, completions and embeddings as OpenAI's.
//!
//! Models are those the server was started with: what would pull, build or delete one is refused.
//! Responses are JSON, streamed as a line of JSON for each delta unless `stream` is false; errors
//! are `{"error": "why"}`.

pub mod chat;
mod common_fields;
pub mod embed;
pub mod error_shape;
pub mod generate;
mod keep_alive;
mod line_shape;
mod line_writer;
mod messages;
mod model_name;
pub mod models;
mod sampling_options;
mod think;
mod timestamp;

//! OpenAI's routes: models, completions, chat completions, responses, embeddings, and the scoring
//! and reranking that other servers offer beside them.
//!
//! A generating route is three small parts: what it reads (`completions.rs`, `chat.rs`), what it
//! writes (`*_shape.rs`), and how deltas of outputs become that (`*_writer.rs`), whole or streamed.

pub mod chat;
mod chat_shape;
mod chat_writer;
mod completion_shape;
mod completion_writer;
pub mod completions;
mod delivery;
mod embedding_usage;
pub mod embeddings;
pub mod fill_in_the_middle;
pub mod logprobs;
pub mod models;
pub mod prompts;
pub mod rerank;
pub mod responses;
pub mod score;
mod shape;

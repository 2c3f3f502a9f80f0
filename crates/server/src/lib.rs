//! The HTTP service: OpenAI's routes, the plain `/completion` and `/chat`, their description,
//! metrics and limits.
//!
//! Only this crate knows HTTP, JSON and OpenAI's field names; below it there are prompts,
//! [`GenerationConfig`](terrace_engine::text::GenerationConfig) and text events.
//!
//! A generating request travels: `connections` → [`router`] → `logging` and `auth` → a route in
//! `openai` or `colossalai`, which reads its `Fields` → `answers`, which submits off the async
//! threads and merges the events → one JSON answer, or `sse` token by token. Dropping the response
//! cancels the work.

#![forbid(unsafe_code)]

mod answer_form;
mod answers;
mod anthropic;
mod api_error;
mod auth;
mod cached_sequences;
mod caller;
mod chat;
mod colossalai;
mod config;
mod connections;
mod conversation;
mod cors;
mod docs;
mod encodings;
mod error;
mod fields;
mod home;
mod ids;
mod kv_cache_fields;
mod limits;
mod logging;
mod metrics;
mod ollama;
mod openai;
mod options;
mod router;
mod served_model;
mod server;
mod shutdown;
mod sse;
mod state;
mod text_embeddings;
mod token_text;
mod tools;
mod unknown_route;
mod usage;
mod version;
mod work_memory;

pub use config::ServerConfig;
pub use connections::Tls;
pub use cors::AllowedOrigin;
pub use error::Error;
pub use limits::Limits;
pub use server::Server;

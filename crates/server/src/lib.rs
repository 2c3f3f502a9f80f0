//! The HTTP service: a folder for each protocol (`openai`, `anthropic`, `ollama`, `colossalai`),
//! what their routes share, and routes about the server itself.
//!
//! Only this crate knows HTTP, JSON and other servers' field names; below it there are prompts,
//! [`GenerationConfig`](terrace_engine::text::GenerationConfig) and text events.
//!
//! A generating request travels: `connections` → [`router`] → `middleware` → a route in a
//! protocol's folder, which reads its `fields` → `language`, which submits off the async threads
//! and merges the events → one JSON response, or an event stream token by token. Dropping the
//! response cancels the request.

#![forbid(unsafe_code)]

mod anthropic;
mod api_error;
mod app_state;
mod bounded_work;
mod chat;
mod colossalai;
mod connections;
mod docs;
mod error;
mod fields;
mod float_encoding;
mod ids;
pub mod kserve;
mod kv_handles;
mod language;
mod limits;
mod metrics;
mod middleware;
mod ollama;
mod openai;
mod ranking;
mod router;
mod server;
mod server_config;
mod services;
mod shutdown;
mod status;
mod structured_output;
mod tables;
mod tokenizer;
mod tools;

pub use bounded_work::WorkMemory;
pub use connections::Tls;
pub use error::Error;
pub use limits::Limits;
pub use middleware::AllowedOrigin;
pub use ranking::RankedModel;
pub use server::Server;
pub use server_config::ServerConfig;
pub use tables::{ServedSet, TableService};

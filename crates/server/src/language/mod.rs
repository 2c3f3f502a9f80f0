//! The language service: its models, and what all routes to them share.
//!
//! A route reads [`RequestOptions`] besides its prompt, submits to a [`ServedModel`] and writes the
//! [`RequestOutputs`] in its protocol's shape, whole or as a stream (`sse`). Embeddings are
//! [`TextEmbeddings`].

mod kv_cache_fields;
mod language_service;
mod past;
mod request_options;
pub mod request_outputs;
mod retention_fields;
mod served_model;
pub mod sse;
mod text_embeddings;
mod token_text;
mod usage;

pub use kv_cache_fields::{KvCacheFields, take_kv_cache};
pub use language_service::LanguageService;
pub use past::{Past, UsedHandle};
pub use request_options::{RequestOptions, RouteDefaults, take_model, take_sampling};
pub use request_outputs::{OutputDelta, RequestOutputs};
pub use served_model::ServedModel;
pub use text_embeddings::{EmbeddingInput, MAX_INPUTS, Overlong, TextEmbeddings, cosine};
pub use token_text::{TokenNames, TokenText};
pub use usage::Usage;

//! Text in, text out, around an engine that knows only ids.
//!
//! Tokenising, detokenising and stop strings run on the caller's thread, never on the engine's.

pub(crate) mod async_inference_engine;
mod generation_config;
pub(crate) mod inference_engine;
mod language_model;
mod pending_embedding;
mod prompt_template;
mod resolve;
mod stop_strings;
mod stop_tokens;
mod text_assembler;
mod text_event;
mod text_front;
pub(crate) mod text_outputs;
mod text_request;
mod text_stream;

pub use generation_config::GenerationConfig;
pub use language_model::LanguageModel;
pub use pending_embedding::PendingEmbedding;
pub use prompt_template::PromptTemplate;
pub use resolve::{MAX_BAD_WORD_BYTES, MAX_BAD_WORDS, MAX_LOGPROBS, ResolveLimits};
pub use stop_strings::MAX_STOPS;
pub use text_assembler::{AssemblerConfig, TextAssembler};
pub use text_event::{TextEvent, TextFinish, TokenInfo};
pub(crate) use text_front::PromptText;
pub use text_front::{PreparedRequest, TextFront};
pub use text_request::{Prompt, Prompts, TextRequest};
pub use text_stream::TextStream;

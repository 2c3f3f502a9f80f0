//! Text in, text out, around an engine that knows only ids.
//!
//! Tokenising, detokenising and stop strings run on the caller's thread, never on the engine's.

mod generation_config;
mod language_model;
mod resolve;
mod text_event;
mod text_request;

pub use generation_config::GenerationConfig;
pub use language_model::{LanguageModel, TextStream};
pub use resolve::{MAX_LOGPROBS, MAX_STOPS, ResolveLimits};
pub use text_event::{TextEvent, TextFinish, TokenInfo};
pub use text_request::{Prompt, TextRequest};

//! What a user asked, in text.

use crate::logits_processor::LogitsProcessor;
use crate::request::{Priority, TokenId};
use crate::text::GenerationConfig;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub enum Prompt {
    /// Tokenised with the tokens the model wants in front of a text.
    Text(String),
    /// A rendered chat: special tokens are in the text already, none are added.
    Rendered(String),
    Tokens(Vec<TokenId>),
}

#[derive(Clone)]
pub struct TextRequest {
    pub prompt: Prompt,
    /// What the request itself asked; presets fill the rest.
    pub generation: GenerationConfig,
    /// The last presets: `GenerationConfig::seed_defaults()` or `::openai_defaults()`.
    pub defaults: GenerationConfig,
    pub priority: Priority,
    pub cache_salt: String,
    pub processors: Vec<Arc<dyn LogitsProcessor>>,
}

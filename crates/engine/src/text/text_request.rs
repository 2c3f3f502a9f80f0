//! What a user asked, in text.

use std::sync::Arc;

use terrace_model::SpecialTokens;
use terrace_tiers::HandleId;

use crate::generate::logits_processor::LogitsProcessor;
use crate::generate::request::Priority;
use crate::generate::request_retention::RequestRetention;
use crate::generate::sampling_strategy::SamplingStrategy;
use crate::guidance::{Grammar, Guide};
use crate::setup::kv_cache::RequestedKvCache;
use crate::text::GenerationConfig;
use terrace_cache::TokenId;

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
    /// The last presets: `GenerationConfig::colossalai_defaults()` or `::openai_defaults()`.
    pub defaults: GenerationConfig,
    /// New tokens when nobody says, as far as they fit; `None` for as many as do.
    pub default_new_tokens: Option<usize>,
    pub priority: Priority,
    pub cache_salt: String,
    /// What it wants of its cache; what it does not say is the server's.
    pub kv_cache: RequestedKvCache,
    /// How long the pages that it leaves behind stay known.
    pub retention: RequestRetention,
    /// Whether it reports what its cache holds at the end of each output.
    pub cache_trace: bool,
    /// Its prompt follows what this handle holds, with that one's cache and salt; a text has no
    /// special tokens in front.
    pub past: Option<HandleId>,
    pub processors: Vec<Arc<dyn LogitsProcessor>>,
    /// Samples in place of `do_sample`, `temperature` and the filters, which cannot be given with
    /// it.
    pub strategy: Option<Arc<dyn SamplingStrategy>>,
    /// What every output must look like, unless its length limit cuts it.
    pub grammar: Option<Grammar>,
    /// The grammar compiled by [`crate::text::LanguageModel::guide`]; if absent, it is compiled
    /// when the request is submitted, in this process.
    pub guide: Option<Arc<Guide>>,
    /// Whether the output's special tokens are shown.
    pub special: SpecialTokens,
    /// Whether the stop string that ends the output is part of its text.
    pub include_stop_text: bool,
    /// Keep only this many of the prompt's last tokens, at least 1; `None` keeps all.
    pub truncate_prompt_tokens: Option<usize>,
}

impl TextRequest {
    /// An ordinary request over the engine's own defaults.
    pub fn new(prompt: impl Into<Prompt>, generation: GenerationConfig) -> Self {
        TextRequest {
            prompt: prompt.into(),
            generation,
            defaults: GenerationConfig::colossalai_defaults(),
            default_new_tokens: None,
            priority: Priority::default(),
            cache_salt: String::new(),
            kv_cache: RequestedKvCache::default(),
            retention: RequestRetention::default(),
            cache_trace: false,
            past: None,
            processors: Vec::new(),
            strategy: None,
            grammar: None,
            guide: None,
            special: SpecialTokens::Skip,
            include_stop_text: false,
            truncate_prompt_tokens: None,
        }
    }
}

/// One or many prompts, as texts or as token ids.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompts(pub Vec<Prompt>);

impl Prompt {
    /// Bytes that are still to be tokenised.
    pub fn text_bytes(&self) -> usize {
        match self {
            Prompt::Text(text) | Prompt::Rendered(text) => text.len(),
            Prompt::Tokens(_) => 0,
        }
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Prompt::Text(text.into())
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Prompt::Text(text)
    }
}

impl From<Vec<TokenId>> for Prompt {
    fn from(ids: Vec<TokenId>) -> Self {
        Prompt::Tokens(ids)
    }
}

impl<T: Into<Prompt>> From<T> for Prompts {
    fn from(prompt: T) -> Self {
        Prompts(vec![prompt.into()])
    }
}

impl<T: Into<Prompt> + Clone> From<&[T]> for Prompts {
    fn from(prompts: &[T]) -> Self {
        Prompts(prompts.iter().cloned().map(Into::into).collect())
    }
}

impl<T: Into<Prompt>, const N: usize> From<[T; N]> for Prompts {
    fn from(prompts: [T; N]) -> Self {
        Prompts(prompts.into_iter().map(Into::into).collect())
    }
}

//! A model ready to talk: tokenizer, chat template, presets, and the engine behind them.

use terrace_model::{ChatTemplate, Tokenizer};

use crate::error::Error;
use crate::event::TokenLogprobs;
use crate::handle::EngineStats;
use crate::request::TokenId;
use crate::text::{GenerationConfig, TextEvent, TextRequest};

pub struct LanguageModel {}

impl LanguageModel {
    /// The name under which it is served.
    pub fn name(&self) -> &str {
        todo!()
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        todo!()
    }

    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        todo!()
    }

    /// Most tokens a prompt and its answer may have together.
    pub fn context_tokens(&self) -> usize {
        todo!()
    }

    /// The presets below a request's own wishes: server's, then the model's.
    pub fn presets(&self) -> &GenerationConfig {
        todo!()
    }

    /// Tokenises, resolves the presets and hands the request to the engine.
    pub fn submit(&self, _request: TextRequest) -> Result<TextStream, Error> {
        todo!()
    }

    pub fn stats(&self) -> EngineStats {
        todo!()
    }

    /// Whether the engine's thread runs.
    pub fn is_running(&self) -> bool {
        todo!()
    }
}

/// The answer as it is made. Dropping it cancels what is unfinished and frees its pages.
pub struct TextStream {}

impl TextStream {
    pub fn prompt_tokens(&self) -> &[TokenId] {
        todo!()
    }

    /// Log-probabilities of the prompt's tokens, once the first event has come, if asked.
    pub fn prompt_logprobs(&self) -> Option<&[Option<TokenLogprobs>]> {
        todo!()
    }

    /// The next piece, or `None` when every choice has finished.
    pub async fn next(&mut self) -> Option<TextEvent> {
        todo!()
    }

    /// As `next`, for threads outside an async runtime.
    pub fn next_blocking(&mut self) -> Option<TextEvent> {
        todo!()
    }
}

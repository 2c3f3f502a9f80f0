//! Requests of a measurement: all submitted at once, then awaited one after the other.

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use terrace_engine::TokenLogprobs;
use terrace_engine::text::{LanguageModel, TextFinish, TextRequest, TextStream};
use terrace_model::Tokenizer;

/// The engine computes them together as far as its memory goes, and refuses a wrong one before the
/// first is computed.
pub struct Requests<'a> {
    model: &'a LanguageModel,
    bar: ProgressBar,
}

/// What came of one request.
pub struct Output {
    pub text: String,
    /// Of the prompt's tokens behind the first, if requested.
    pub prompt_logprobs: Vec<TokenLogprobs>,
}

impl<'a> Requests<'a> {
    /// `bar` is updated by each request, and moves on with each output.
    pub fn new(model: &'a LanguageModel, bar: ProgressBar) -> Self {
        Requests { model, bar }
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        self.model.tokenizer()
    }

    pub fn submit(&self, request: TextRequest) -> Result<TextStream> {
        let stream = self.model.submit(request)?;
        self.bar.inc_length(1);
        Ok(stream)
    }

    pub fn wait(&self, mut stream: TextStream) -> Result<Output> {
        let mut text = String::new();
        while let Some(event) = stream.next_blocking() {
            text += &event.text;
            if matches!(event.finish, Some(TextFinish::Failed(_) | TextFinish::Cancelled)) {
                bail!("a request of the measurement failed; the log above says why");
            }
        }
        self.bar.inc(1);
        let logprobs = stream.prompt_logprobs().unwrap_or_default();
        Ok(Output { text, prompt_logprobs: logprobs.iter().flatten().cloned().collect() })
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

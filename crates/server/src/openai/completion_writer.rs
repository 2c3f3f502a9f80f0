//! Deltas of outputs as a completion, whole or streamed, with the prompt in front if requested.

use std::cmp::Ordering;
use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use terrace_engine::{TokenId, TokenLogprobs};

use crate::api_error::ApiResult;
use crate::language::sse::{Frame, Frames, Source};
use crate::language::{OutputDelta, RequestOutputs, TokenNames, Usage, UsedHandle};
use crate::openai::completion_shape::{Completion, CompletionChoice};
use crate::openai::delivery::StreamUsage;
use crate::openai::logprobs::{CompletionLogprobs, PromptLogprobs};
use crate::openai::shape::{FinishReason, Head, UsageShape};

/// Turns deltas into choices, whole or streamed.
pub struct CompletionWriter {
    pub head: Head,
    pub names: TokenNames,
    pub reports: Reports,
    /// What to write before each output, by prompt.
    pub echo: Option<Vec<Echo>>,
    /// The tokens of each prompt.
    pub prompts: Vec<Arc<[TokenId]>>,
    /// Only the prompt was requested; the one token sampled on the way is kept back.
    pub prompt_only: bool,
    pub written: Vec<Written>,
    pub warnings: Vec<String>,
    pub used_handle: Option<UsedHandle>,
}

/// What a response has besides the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    pub logprobs: bool,
    pub prompt_logprobs: bool,
    pub token_ids: bool,
}

/// How far an output has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Written {
    chars: usize,
    begun: bool,
    /// Of the output's tokens, as far as they are reported.
    logprob: f64,
    tokens: usize,
}

/// A prompt to be repeated in front of its outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Echo {
    pub text: String,
    pub tokens: Arc<[TokenId]>,
    /// Comes with the first delta.
    pub logprobs: Option<Vec<Option<TokenLogprobs>>>,
}

impl CompletionWriter {
    /// All choices, or the `best` of each prompt's.
    pub async fn whole(
        mut self,
        mut outputs: RequestOutputs,
        best: Option<usize>,
    ) -> ApiResult<Response> {
        let mut choices: Vec<Option<CompletionChoice>> = Vec::new();
        choices.resize_with(self.written.len(), || None);
        while let Some(delta) = outputs.next().await {
            let new = self.choice(delta?);
            match &mut choices[new.index] {
                Some(choice) => choice.append(new),
                none => *none = Some(new),
            }
        }
        let choices = choices.into_iter().flatten().collect();
        let choices = match best {
            Some(best) => self.best_of(choices, best),
            None => choices,
        };
        let usage = Some(Some(self.usage(outputs.usage())));
        let warnings = std::mem::take(&mut self.warnings);
        let (head, kv_cache) = (&self.head, self.used_handle);
        Ok(Json(Completion { head, choices, usage, warnings, kv_cache }).into_response())
    }

    pub fn streamed(self, usage: StreamUsage) -> CompletionFrames {
        CompletionFrames { writer: self, usage }
    }

    /// The `best` choices of each prompt by the mean log-probability of their tokens.
    fn best_of(&self, mut choices: Vec<CompletionChoice>, best: usize) -> Vec<CompletionChoice> {
        let each = choices.len() / self.prompts.len().max(1);
        let score = |choice: &CompletionChoice| {
            let Written { logprob, tokens, .. } = self.written[choice.index];
            logprob / tokens.max(1) as f64
        };
        let better = |a: &CompletionChoice, b: &CompletionChoice| {
            score(b).partial_cmp(&score(a)).unwrap_or(Ordering::Equal)
        };
        choices.chunks_mut(each.max(1)).for_each(|group| group.sort_by(better));
        let kept = choices.into_iter().enumerate();
        let kept = kept.filter(|(index, _)| index % each.max(1) < best).map(|(_, choice)| choice);
        kept.enumerate().map(|(index, choice)| CompletionChoice { index, ..choice }).collect()
    }

    fn choice(&mut self, mut delta: OutputDelta) -> CompletionChoice {
        let mut choice = CompletionChoice {
            text: String::new(),
            index: delta.output,
            logprobs: self.reports.logprobs.then(CompletionLogprobs::default),
            finish_reason: delta.finish.as_ref().map(FinishReason::from),
            prompt_logprobs: None,
            prompt_token_ids: None,
            token_ids: None,
        };
        self.write_prompt(&mut delta, &mut choice);
        if self.prompt_only {
            return choice;
        }
        let written = &mut self.written[delta.output];
        let mut offset = written.chars;
        written.chars += delta.text.chars().count();
        for logprobs in delta.tokens.iter().filter_map(|info| info.logprobs.as_ref()) {
            written.logprob += f64::from(logprobs.logprob);
            written.tokens += 1;
        }
        choice.text.push_str(&delta.text);
        if let Some(lists) = &mut choice.logprobs {
            for info in &delta.tokens {
                let end = lists.push(info.id, info.logprobs.as_ref(), offset, &self.names);
                offset = end.min(written.chars);
            }
        }
        if self.reports.token_ids {
            choice.token_ids = Some(delta.tokens.iter().map(|info| info.id).collect());
        }
        choice
    }

    /// Puts what is requested of the prompt into an output's first delta.
    fn write_prompt(&mut self, delta: &mut OutputDelta, choice: &mut CompletionChoice) {
        let tokens = &self.prompts[delta.prompt];
        if self.reports.prompt_logprobs
            && let Some(logprobs) = &delta.prompt_logprobs
        {
            choice.prompt_logprobs = Some(PromptLogprobs::new(tokens, logprobs, &self.names));
        }
        let is_first = !std::mem::replace(&mut self.written[delta.output].begun, true);
        if self.reports.token_ids && is_first {
            choice.prompt_token_ids = Some(tokens.to_vec());
        }
        let Some(echo) = self.echo.as_mut().map(|echoes| &mut echoes[delta.prompt]) else { return };
        if let Some(logprobs) = delta.prompt_logprobs.take() {
            echo.logprobs = Some(logprobs);
        }
        if !is_first {
            return;
        }
        let written = &mut self.written[delta.output];
        written.chars = echo.text.chars().count();
        choice.text.push_str(&echo.text);
        if let Some(lists) = &mut choice.logprobs {
            let mut offset = 0;
            for (index, &id) in echo.tokens.iter().enumerate() {
                let given = echo.logprobs.as_ref().and_then(|all| all.get(index)?.as_ref());
                offset = lists.push(id, given, offset, &self.names).min(written.chars);
            }
        }
    }

    fn usage(&self, usage: Usage) -> UsageShape {
        let new_tokens = if self.prompt_only { 0 } else { usage.new_tokens };
        Usage { new_tokens, ..usage }.into()
    }
}

impl CompletionChoice {
    fn append(&mut self, more: Self) {
        self.text.push_str(&more.text);
        if let (Some(all), Some(new)) = (&mut self.logprobs, more.logprobs) {
            all.append(new);
        }
        if let (Some(all), Some(new)) = (&mut self.token_ids, more.token_ids) {
            all.extend(new);
        }
        self.finish_reason = more.finish_reason;
    }

    fn is_empty(&self) -> bool {
        let no_logprobs = self.logprobs.as_ref().is_none_or(|lists| *lists == Default::default());
        let no_prompt = self.prompt_logprobs.is_none() && self.prompt_token_ids.is_none();
        let no_ids = self.token_ids.as_ref().is_none_or(Vec::is_empty);
        let no_report = no_logprobs && no_prompt && no_ids;
        self.text.is_empty() && no_report && self.finish_reason.is_none()
    }
}

pub struct CompletionFrames {
    writer: CompletionWriter,
    usage: StreamUsage,
}

impl Frames<OutputDelta> for CompletionFrames {
    fn open(&mut self) -> Vec<Frame> {
        Vec::new()
    }

    fn delta(&mut self, delta: OutputDelta, usage: Usage) -> Vec<Frame> {
        let choice = self.writer.choice(delta);
        if choice.is_empty() {
            return Vec::new();
        }
        let counts = self.usage.in_chunks.then(|| self.writer.usage(usage));
        vec![self.frame(vec![choice], self.usage.at_end.then_some(counts))]
    }

    fn close(&mut self, usage: Usage) -> Vec<Frame> {
        let usage = self.usage.at_end.then(|| Some(self.writer.usage(usage)));
        let last = usage.map(|usage| self.frame(Vec::new(), Some(usage)));
        last.into_iter().chain([Frame::done()]).collect()
    }
}

impl CompletionFrames {
    fn frame(
        &mut self,
        choices: Vec<CompletionChoice>,
        usage: Option<Option<UsageShape>>,
    ) -> Frame {
        let warnings = std::mem::take(&mut self.writer.warnings);
        // The usage comes without choices.
        let is_last = choices.iter().all(|choice| choice.finish_reason.is_some());
        let kv_cache = self.writer.used_handle.clone().filter(|_| is_last);
        Frame::json(&Completion { head: &self.writer.head, choices, usage, warnings, kv_cache })
    }
}

#[cfg(test)]
mod tests;

//! Pieces of answers as a completion, whole or streamed, with the prompt in front if asked.

use axum::Json;
use axum::response::{IntoResponse, Response};
use terrace_engine::{TokenId, TokenLogprobs};

use crate::answers::{Answers, Piece, Usage};
use crate::api_error::ApiError;
use crate::openai::completion_shape::{Completion, CompletionChoice};
use crate::openai::logprobs::CompletionLogprobs;
use crate::openai::shape::{FinishReason, Head, UsageShape};
use crate::served_model::TokenNames;
use crate::sse::{self, Frames};

/// Turns pieces into choices, or parts of them.
pub struct CompletionWriter {
    pub head: Head,
    /// Names the tokens where log-probabilities are asked for.
    pub logprobs: Option<TokenNames>,
    /// What to write before each answer, by prompt.
    pub echo: Option<Vec<Echo>>,
    /// Only the prompt was asked for; the one token made on the way is kept back.
    pub prompt_only: bool,
    pub written: Vec<Written>,
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    chars: usize,
    echoed: bool,
}

/// A prompt to be repeated in front of its answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Echo {
    pub text: String,
    pub tokens: Vec<TokenId>,
    /// Comes with the first piece.
    pub logprobs: Option<Vec<Option<TokenLogprobs>>>,
}

impl CompletionWriter {
    pub async fn whole(mut self, mut answers: Answers) -> Result<Response, ApiError> {
        let mut choices: Vec<Option<CompletionChoice>> = Vec::new();
        choices.resize_with(self.written.len(), || None);
        while let Some(piece) = answers.next().await {
            let part = self.part(piece?);
            match &mut choices[part.index] {
                Some(choice) => choice.append(part),
                none => *none = Some(part),
            }
        }
        let choices = choices.into_iter().flatten().collect();
        let usage = Some(Some(self.usage(answers.usage())));
        Ok(Json(Completion { head: &self.head, choices, usage }).into_response())
    }

    pub fn streamed(self, include_usage: bool) -> CompletionFrames {
        CompletionFrames { writer: self, include_usage }
    }

    fn part(&mut self, mut piece: Piece) -> CompletionChoice {
        let mut part = CompletionChoice {
            text: String::new(),
            index: piece.answer,
            logprobs: self.logprobs.as_ref().map(|_| CompletionLogprobs::default()),
            finish_reason: piece.finish.as_ref().map(FinishReason::from),
        };
        self.write_echo(&mut piece, &mut part);
        if self.prompt_only {
            return part;
        }
        let written = &mut self.written[piece.answer];
        let mut offset = written.chars;
        written.chars += piece.text.chars().count();
        part.text.push_str(&piece.text);
        if let (Some(lists), Some(names)) = (&mut part.logprobs, &self.logprobs) {
            for info in &piece.tokens {
                let end = lists.push(info.id, info.logprobs.as_ref(), offset, names);
                offset = end.min(written.chars);
            }
        }
        part
    }

    /// Puts the prompt into the first part of an answer.
    fn write_echo(&mut self, piece: &mut Piece, part: &mut CompletionChoice) {
        let Some(echo) = self.echo.as_mut().map(|echoes| &mut echoes[piece.prompt]) else { return };
        if let Some(logprobs) = piece.prompt_logprobs.take() {
            echo.logprobs = Some(logprobs);
        }
        let written = &mut self.written[piece.answer];
        if written.echoed {
            return;
        }
        *written = Written { chars: echo.text.chars().count(), echoed: true };
        part.text.push_str(&echo.text);
        if let (Some(lists), Some(names)) = (&mut part.logprobs, &self.logprobs) {
            let mut offset = 0;
            for (index, &id) in echo.tokens.iter().enumerate() {
                let given = echo.logprobs.as_ref().and_then(|all| all.get(index)?.as_ref());
                offset = lists.push(id, given, offset, names).min(written.chars);
            }
        }
    }

    fn usage(&self, usage: Usage) -> UsageShape {
        let new_tokens = if self.prompt_only { 0 } else { usage.new_tokens };
        Usage { new_tokens, ..usage }.into()
    }
}

impl CompletionChoice {
    fn append(&mut self, part: Self) {
        self.text.push_str(&part.text);
        if let (Some(all), Some(new)) = (&mut self.logprobs, part.logprobs) {
            all.append(new);
        }
        self.finish_reason = part.finish_reason;
    }

    fn is_empty(&self) -> bool {
        let no_logprobs = self.logprobs.as_ref().is_none_or(|lists| *lists == Default::default());
        self.text.is_empty() && no_logprobs && self.finish_reason.is_none()
    }
}

pub struct CompletionFrames {
    writer: CompletionWriter,
    include_usage: bool,
}

impl Frames for CompletionFrames {
    fn open(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn piece(&mut self, piece: Piece) -> Vec<String> {
        let part = self.writer.part(piece);
        if part.is_empty() {
            return Vec::new();
        }
        let usage = self.include_usage.then_some(None);
        vec![sse::frame(&Completion { head: &self.writer.head, choices: vec![part], usage })]
    }

    fn close(&mut self, usage: Usage) -> Vec<String> {
        if !self.include_usage {
            return Vec::new();
        }
        let usage = Some(Some(self.writer.usage(usage)));
        vec![sse::frame(&Completion { head: &self.writer.head, choices: Vec::new(), usage })]
    }
}

#[cfg(test)]
mod tests;

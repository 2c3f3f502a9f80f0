//! Pieces of answers as a chat completion, whole or streamed.

use axum::Json;
use axum::response::{IntoResponse, Response};

use crate::answers::{Answers, Piece, Usage};
use crate::api_error::ApiError;
use crate::openai::chat_shape::{
    ChatChoice, ChatChunk, ChatCompletion, ChatLogprobs, ChatMessage, ChunkChoice, Delta, ToolCall,
    ToolCallDelta,
};
use crate::openai::logprobs::ChatLogprob;
use crate::openai::shape::{FinishReason, Head, UsageShape};
use crate::served_model::TokenNames;
use crate::sse::{self, Frames};
use crate::tools::{AnswerReader, Part};

const ROLE: &str = "assistant";

/// Turns pieces into OpenAI's shapes.
pub struct ChatWriter {
    pub model: String,
    /// One for each choice.
    pub readers: Vec<AnswerReader>,
    /// Names the tokens where log-probabilities are asked for.
    pub logprobs: Option<TokenNames>,
}

impl ChatWriter {
    pub async fn whole(mut self, mut answers: Answers) -> Result<Response, ApiError> {
        let choices = 0..self.readers.len();
        let mut choices: Vec<_> = choices.map(|index| self.empty_choice(index)).collect();
        while let Some(piece) = answers.next().await {
            let piece = piece?;
            let choice = &mut choices[piece.answer];
            if let (Some(all), Some(new)) = (&mut choice.logprobs, self.logprobs_of(&piece)) {
                all.content.extend(new.content);
            }
            let (parts, finish_reason) = self.read(piece);
            parts.into_iter().for_each(|part| choice.message.add(part));
            choice.finish_reason = finish_reason;
        }
        choices.iter_mut().for_each(|choice| choice.message.close());
        let head = Head::new("chatcmpl-", "chat.completion", &self.model);
        Ok(Json(ChatCompletion { head, choices, usage: answers.usage().into() }).into_response())
    }

    pub fn streamed(self, include_usage: bool) -> ChatFrames {
        let head = Head::new("chatcmpl-", "chat.completion.chunk", &self.model);
        let calls = vec![0; self.readers.len()];
        ChatFrames { writer: self, head, include_usage, calls }
    }

    fn empty_choice(&self, index: usize) -> ChatChoice {
        ChatChoice {
            index,
            message: ChatMessage {
                role: ROLE,
                content: None,
                refusal: None,
                tool_calls: Vec::new(),
            },
            logprobs: self.logprobs.as_ref().map(|_| ChatLogprobs::new(Vec::new())),
            finish_reason: None,
        }
    }

    /// What the piece is made of, and how its answer ended.
    fn read(&mut self, piece: Piece) -> (Vec<Part>, Option<FinishReason>) {
        let reader = &mut self.readers[piece.answer];
        let mut parts = reader.push(piece.text);
        let Some(finish) = &piece.finish else { return (parts, None) };
        parts.extend(reader.finish());
        let reason = match FinishReason::from(finish) {
            FinishReason::Stop if reader.has_calls() => FinishReason::ToolCalls,
            reason => reason,
        };
        (parts, Some(reason))
    }

    fn logprobs_of(&self, piece: &Piece) -> Option<ChatLogprobs> {
        let names = self.logprobs.as_ref()?;
        let tokens = piece.tokens.iter();
        Some(ChatLogprobs::new(tokens.filter_map(|info| ChatLogprob::of(info, names)).collect()))
    }
}

impl ChatMessage {
    fn add(&mut self, part: Part) {
        match part {
            Part::Text(text) => self.content.get_or_insert_default().push_str(&text),
            Part::Call { name } => self.tool_calls.push(ToolCall::new(name)),
            Part::Arguments(text) => {
                let call = self.tool_calls.last_mut().expect("a call comes before its arguments");
                call.function.arguments.push_str(&text);
            }
        }
    }

    /// An answer without calls has a text, if an empty one.
    fn close(&mut self) {
        if self.tool_calls.is_empty() {
            self.content.get_or_insert_default();
        }
    }
}

pub struct ChatFrames {
    writer: ChatWriter,
    /// Calls begun in each choice.
    calls: Vec<usize>,
    head: Head,
    include_usage: bool,
}

impl Frames for ChatFrames {
    fn open(&mut self) -> Vec<String> {
        let role = |index| {
            let delta = Delta { role: Some(ROLE), content: Some(String::new()), tool_calls: None };
            self.chunk(ChunkChoice { index, delta, logprobs: None, finish_reason: None })
        };
        (0..self.calls.len()).map(role).collect()
    }

    fn piece(&mut self, piece: Piece) -> Vec<String> {
        let index = piece.answer;
        let mut logprobs = self.writer.logprobs_of(&piece).filter(|new| !new.content.is_empty());
        let (parts, finish_reason) = self.writer.read(piece);
        let mut deltas: Vec<_> = parts.into_iter().map(|part| self.delta(index, part)).collect();
        if deltas.is_empty() && logprobs.is_some() {
            // Their tokens' text is not decided yet.
            deltas.push(Delta { content: Some(String::new()), ..Delta::default() });
        }
        let mut chunks = Vec::with_capacity(deltas.len() + 1);
        for delta in deltas {
            let logprobs = logprobs.take();
            chunks.push(self.chunk(ChunkChoice { index, delta, logprobs, finish_reason: None }));
        }
        if finish_reason.is_some() {
            let delta = Delta::default();
            chunks.push(self.chunk(ChunkChoice { index, delta, logprobs: None, finish_reason }));
        }
        chunks
    }

    fn close(&mut self, usage: Usage) -> Vec<String> {
        let usage = self.include_usage.then(|| Some(UsageShape::from(usage)));
        let chunk = ChatChunk { head: &self.head, choices: Vec::new(), usage };
        self.include_usage.then(|| sse::frame(&chunk)).into_iter().collect()
    }
}

impl ChatFrames {
    fn delta(&mut self, choice: usize, part: Part) -> Delta {
        let calls = &mut self.calls[choice];
        let call = match part {
            Part::Text(text) => return Delta { content: Some(text), ..Delta::default() },
            Part::Call { name } => {
                *calls += 1;
                ToolCallDelta::begin(*calls - 1, name)
            }
            Part::Arguments(text) => ToolCallDelta::arguments(*calls - 1, text),
        };
        Delta { tool_calls: Some([call]), ..Delta::default() }
    }

    fn chunk(&self, choice: ChunkChoice) -> String {
        let usage = self.include_usage.then_some(None);
        sse::frame(&ChatChunk { head: &self.head, choices: vec![choice], usage })
    }
}

#[cfg(test)]
mod tests;

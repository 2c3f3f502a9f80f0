//! Pieces of answers as a chat completion, whole or streamed.

use axum::Json;
use axum::response::{IntoResponse, Response};

use crate::answers::{Answers, Piece, Usage};
use crate::api_error::ApiError;
use crate::openai::chat_shape::{
    ChatChoice, ChatChunk, ChatCompletion, ChatLogprobs, ChatMessage, ChunkChoice, Delta,
};
use crate::openai::logprobs::ChatLogprob;
use crate::openai::shape::{FinishReason, Head, UsageShape};
use crate::served_model::TokenNames;
use crate::sse::{self, Frames};

const ROLE: &str = "assistant";

/// Turns pieces into OpenAI's shapes; keeps nothing of what it has written.
pub struct ChatWriter {
    pub model: String,
    pub choices: usize,
    /// Names the tokens where log-probabilities are asked for.
    pub logprobs: Option<TokenNames>,
}

impl ChatWriter {
    pub async fn whole(self, mut answers: Answers) -> Result<Response, ApiError> {
        let mut choices: Vec<_> = (0..self.choices).map(|index| self.empty_choice(index)).collect();
        while let Some(piece) = answers.next().await {
            let piece = piece?;
            let choice = &mut choices[piece.answer];
            choice.message.content.push_str(&piece.text);
            if let (Some(all), Some(new)) = (&mut choice.logprobs, self.logprobs_of(&piece)) {
                all.content.extend(new.content);
            }
            choice.finish_reason = piece.finish.as_ref().map(FinishReason::from);
        }
        let head = Head::new("chatcmpl-", "chat.completion", &self.model);
        Ok(Json(ChatCompletion { head, choices, usage: answers.usage().into() }).into_response())
    }

    pub fn streamed(self, include_usage: bool) -> ChatFrames {
        let head = Head::new("chatcmpl-", "chat.completion.chunk", &self.model);
        ChatFrames { writer: self, head, include_usage }
    }

    fn empty_choice(&self, index: usize) -> ChatChoice {
        ChatChoice {
            index,
            message: ChatMessage { role: ROLE, content: String::new(), refusal: None },
            logprobs: self.logprobs.as_ref().map(|_| ChatLogprobs::new(Vec::new())),
            finish_reason: None,
        }
    }

    fn logprobs_of(&self, piece: &Piece) -> Option<ChatLogprobs> {
        let names = self.logprobs.as_ref()?;
        let tokens = piece.tokens.iter();
        Some(ChatLogprobs::new(tokens.filter_map(|info| ChatLogprob::of(info, names)).collect()))
    }
}

pub struct ChatFrames {
    writer: ChatWriter,
    head: Head,
    include_usage: bool,
}

impl Frames for ChatFrames {
    fn open(&mut self) -> Vec<String> {
        let role = |index| {
            let delta = Delta { role: Some(ROLE), content: Some(String::new()) };
            self.chunk(ChunkChoice { index, delta, logprobs: None, finish_reason: None })
        };
        (0..self.writer.choices).map(role).collect()
    }

    fn piece(&mut self, piece: Piece) -> Vec<String> {
        let index = piece.answer;
        let mut chunks = Vec::with_capacity(2);
        let logprobs = self.writer.logprobs_of(&piece).filter(|new| !new.content.is_empty());
        if !piece.text.is_empty() || logprobs.is_some() {
            let delta = Delta { role: None, content: Some(piece.text) };
            chunks.push(self.chunk(ChunkChoice { index, delta, logprobs, finish_reason: None }));
        }
        if let Some(finish) = &piece.finish {
            let finish_reason = Some(finish.into());
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
    fn chunk(&self, choice: ChunkChoice) -> String {
        let usage = self.include_usage.then_some(None);
        sse::frame(&ChatChunk { head: &self.head, choices: vec![choice], usage })
    }
}

#[cfg(test)]
mod tests;

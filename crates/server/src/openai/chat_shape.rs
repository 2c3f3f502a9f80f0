//! The answers of `/v1/chat/completions`.

use serde::Serialize;
use utoipa::ToSchema;

use crate::openai::logprobs::ChatLogprob;
use crate::openai::shape::{FinishReason, Head, UsageShape};

#[derive(Debug, Serialize, ToSchema)]
pub struct ChatCompletion {
    #[serde(flatten)]
    pub head: Head,
    pub choices: Vec<ChatChoice>,
    pub usage: UsageShape,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ChatChoice {
    pub index: usize,
    pub message: ChatMessage,
    pub logprobs: Option<ChatLogprobs>,
    pub finish_reason: Option<FinishReason>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ChatMessage {
    pub role: &'static str,
    pub content: String,
    pub refusal: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ChatLogprobs {
    pub content: Vec<ChatLogprob>,
    pub refusal: Option<Vec<ChatLogprob>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ChatChunk<'a> {
    #[serde(flatten)]
    pub head: &'a Head,
    pub choices: Vec<ChunkChoice>,
    /// Absent unless asked; then null on all chunks but the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<UsageShape>)]
    pub usage: Option<Option<UsageShape>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ChunkChoice {
    pub index: usize,
    pub delta: Delta,
    pub logprobs: Option<ChatLogprobs>,
    pub finish_reason: Option<FinishReason>,
}

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

impl ChatLogprobs {
    pub fn new(content: Vec<ChatLogprob>) -> Self {
        Self { content, refusal: None }
    }
}

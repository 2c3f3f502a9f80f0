//! The answers of `/v1/chat/completions`.

use serde::Serialize;
use utoipa::ToSchema;

use crate::ids;
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
    /// Null beside tool calls, if the model wrote nothing else.
    pub content: Option<String>,
    pub refusal: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

/// A function that the client is asked to call.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolCall {
    pub id: String,
    pub r#type: &'static str,
    pub function: FunctionCall,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct FunctionCall {
    pub name: String,
    /// The text of a JSON object.
    pub arguments: String,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<[ToolCallDelta; 1]>,
}

/// A piece of a call: first its name, then its arguments as they are made.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolCallDelta {
    /// Which of the answer's calls.
    pub index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<&'static str>,
    pub function: FunctionDelta,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct FunctionDelta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub arguments: String,
}

impl ToolCall {
    pub fn new(name: String) -> Self {
        let function = FunctionCall { name, arguments: String::new() };
        ToolCall { id: ids::tool_call(), r#type: "function", function }
    }
}

impl ToolCallDelta {
    /// The first piece of a call.
    pub fn begin(index: usize, name: String) -> Self {
        ToolCallDelta {
            index,
            id: Some(ids::tool_call()),
            r#type: Some("function"),
            function: FunctionDelta { name: Some(name), arguments: String::new() },
        }
    }

    pub fn arguments(index: usize, arguments: String) -> Self {
        let function = FunctionDelta { name: None, arguments };
        ToolCallDelta { index, id: None, r#type: None, function }
    }
}

impl ChatLogprobs {
    pub fn new(content: Vec<ChatLogprob>) -> Self {
        Self { content, refusal: None }
    }
}

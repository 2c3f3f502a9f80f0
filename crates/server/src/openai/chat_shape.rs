//! The responses of `/v1/chat/completions`.

use serde::Serialize;
use utoipa::ToSchema;

use crate::chat::WholeCall;
use crate::ids;
use crate::language::UsedHandle;
use crate::openai::logprobs::{ChatLogprob, PromptLogprobs};
use crate::openai::shape::{FinishReason, Head, UsageShape};

#[derive(Debug, Serialize, ToSchema)]
pub struct ChatCompletion {
    #[serde(flatten)]
    pub head: Head,
    /// One for each output.
    pub choices: Vec<ChatChoice>,
    pub usage: UsageShape,
    /// What was done in another way than requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The prompt's tokens, with `return_token_ids`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// Of the prompt's tokens, if requested; null for the first, which nothing comes before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<PromptLogprobs>,
    /// What it goes on from, with `kv_cache.handle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache: Option<UsedHandle>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ChatChoice {
    /// Which output.
    pub index: usize,
    pub message: ChatMessage,
    pub logprobs: Option<ChatLogprobs>,
    pub finish_reason: Option<FinishReason>,
    /// The output's tokens, with `return_token_ids`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

/// What the model says.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChatMessage {
    /// `assistant`
    pub role: &'static str,
    /// Null beside tool calls, if the model wrote nothing else.
    pub content: Option<String>,
    /// What a thinking model wrote before its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Always null: nothing is refused in this way.
    pub refusal: Option<String>,
    /// The calls that the model makes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

/// A function that the client shall call.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolCall {
    /// Names this call, for the message that brings its result.
    pub id: String,
    /// `function`
    pub r#type: &'static str,
    pub function: FunctionCall,
}

/// Which function, and with what.
#[derive(Debug, Serialize, ToSchema)]
pub struct FunctionCall {
    /// As the request named it.
    pub name: String,
    /// The text of a JSON object.
    pub arguments: String,
}

/// Log-probabilities, if requested.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChatLogprobs {
    /// One for each token of the output, or of this delta.
    pub content: Vec<ChatLogprob>,
    /// Always null.
    pub refusal: Option<Vec<ChatLogprob>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ChatChunk<'a> {
    #[serde(flatten)]
    pub head: &'a Head,
    /// A delta of one output; none beside the usage at the end.
    pub choices: Vec<ChunkChoice>,
    /// Absent unless requested; then null on all chunks but the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<UsageShape>)]
    pub usage: Option<Option<UsageShape>>,
    /// What was done in another way than requested; in the first chunk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The prompt's tokens, with `return_token_ids`; in the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// What it goes on from, with `kv_cache.handle`; in the last chunk of each output, and beside
    /// the usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache: Option<UsedHandle>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ChunkChoice {
    /// Which output.
    pub index: usize,
    pub delta: Delta,
    pub logprobs: Option<ChatLogprobs>,
    pub finish_reason: Option<FinishReason>,
    /// The delta's tokens, with `return_token_ids`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

/// What is new in an output.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Delta {
    /// `assistant`, on the first delta.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// More text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// More of what a thinking model writes before its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// More of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<[ToolCallDelta; 1]>,
}

/// A delta of a call: first its name, then its arguments as they are decoded.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolCallDelta {
    /// Which of the output's calls.
    pub index: usize,
    /// Names the call; on its first delta.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `function`, on its first delta.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<&'static str>,
    pub function: FunctionDelta,
}

/// The function's name first, then more of its arguments.
#[derive(Debug, Serialize, ToSchema)]
pub struct FunctionDelta {
    /// On the call's first delta.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// More of the text of a JSON object.
    pub arguments: String,
}

impl From<WholeCall> for ToolCall {
    fn from(WholeCall { name, arguments }: WholeCall) -> Self {
        let function = FunctionCall { name, arguments };
        ToolCall { id: ids::tool_call(), r#type: "function", function }
    }
}

impl ToolCallDelta {
    /// The first delta of a call.
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

impl ChunkChoice {
    /// A choice with nothing but its delta.
    pub fn new(index: usize, delta: Delta) -> Self {
        Self { index, delta, logprobs: None, finish_reason: None, token_ids: None }
    }
}

impl ChatLogprobs {
    pub fn new(content: Vec<ChatLogprob>) -> Self {
        Self { content, refusal: None }
    }
}

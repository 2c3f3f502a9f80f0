//! The responses of `/api/chat` and `/api/generate`: a line of a stream, or all of it in one.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::openai::logprobs::ChatLogprob;

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Line {
    Chat(ChatLine),
    Generate(GenerateLine),
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ChatLine {
    #[serde(flatten)]
    pub head: LineHead,
    pub message: LineMessage,
    #[serde(flatten)]
    pub end: LineEnd,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct GenerateLine {
    #[serde(flatten)]
    pub head: LineHead,
    /// More text; all of it where nothing is streamed.
    pub response: String,
    /// More of what a thinking model writes before its output.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    #[serde(flatten)]
    pub end: LineEnd,
}

/// How every line begins.
#[derive(Debug, Serialize, ToSchema)]
pub struct LineHead {
    /// The model, by the name that was requested.
    pub model: String,
    /// When the line was written, as RFC 3339 has it.
    pub created_at: String,
}

/// What the model says.
#[derive(Debug, Serialize, ToSchema)]
pub struct LineMessage {
    /// `assistant`
    pub role: &'static str,
    /// More text; all of it where nothing is streamed.
    pub content: String,
    /// More of what a thinking model writes before its output.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    /// Functions that the client shall call, each whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<LineCall>,
}

/// A function that the client shall call.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct LineCall {
    /// Names this call, for the message that brings its result.
    pub id: String,
    pub function: LineFunction,
}

/// Which function, and with what.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct LineFunction {
    /// Which of the output's calls.
    pub index: usize,
    /// As the request named it.
    pub name: String,
    /// Its arguments by name.
    pub arguments: Map<String, Value>,
}

/// How every line ends.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct LineEnd {
    /// Of the line's tokens, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<ChatLogprob>,
    /// Whether this is the last line.
    pub done: bool,
    /// On the last line: `stop`, `length`, or `load` where there was no prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done_reason: Option<&'static str>,
    #[serde(flatten)]
    pub totals: Option<LineTotals>,
}

/// What the output took; on its last line. Durations are nanoseconds.
#[derive(Debug, Serialize, ToSchema)]
pub struct LineTotals {
    /// From the request to its last token.
    pub total_duration: u64,
    /// Until the prompt was rendered, tokenised and handed to the engine; models are loaded before.
    pub load_duration: u64,
    /// Tokens of the prompt.
    pub prompt_eval_count: usize,
    /// From there to the first token.
    pub prompt_eval_duration: u64,
    /// Tokens of the output.
    pub eval_count: usize,
    /// From the first token to the last.
    pub eval_duration: u64,
}

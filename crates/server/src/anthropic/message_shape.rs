//! The message that `/v1/messages` gives.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::turns::CALL_ID_PREFIX;
use crate::chat::ChatFinish;
use crate::ids;
use crate::language::Usage as TokenCounts;

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = anthropic::Message)]
pub struct Message {
    /// Names this message and no other.
    pub id: String,
    /// `message`
    pub r#type: &'static str,
    /// `assistant`
    pub role: &'static str,
    /// The model that answers.
    pub model: String,
    /// What the model wrote, in its order; may be empty.
    pub content: Vec<ContentBlock>,
    #[serde(flatten)]
    pub stop: Stop,
    pub usage: Usage,
    /// What was done in another way than requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Message {
    /// Before its first block.
    pub fn begin(model: &str, prompt_tokens: usize, warnings: &[String]) -> Self {
        Self {
            id: ids::unique("msg_"),
            r#type: "message",
            role: "assistant",
            model: model.to_owned(),
            content: Vec::new(),
            stop: Stop::default(),
            usage: TokenCounts { prompt_tokens, ..TokenCounts::default() }.into(),
            warnings: warnings.to_vec(),
        }
    }
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = anthropic::ContentBlock)]
pub enum ContentBlock {
    Text {
        /// What the model says.
        text: String,
    },
    Thinking {
        /// What a thinking model wrote before its output; empty with `"display": "omitted"`.
        thinking: String,
        /// Always empty: thinking that comes back is not checked, so there is nothing to sign.
        signature: &'static str,
    },
    ToolUse {
        /// Names this call, for the block that brings its result.
        id: String,
        /// As the request named the tool.
        name: String,
        /// The arguments.
        input: Map<String, Value>,
    },
}

impl ContentBlock {
    pub fn thinking(thinking: String) -> Self {
        Self::Thinking { thinking, signature: "" }
    }

    pub fn tool_use(name: String, input: Map<String, Value>) -> Self {
        Self::ToolUse { id: format!("{CALL_ID_PREFIX}{}", ids::tool_call()), name, input }
    }
}

/// Why the message ended; null while it goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = anthropic::Stop)]
pub struct Stop {
    /// What ended it.
    pub stop_reason: Option<StopReason>,
    /// Which of `stop_sequences` came, if one did.
    pub stop_sequence: Option<String>,
}

/// What ended a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = anthropic::StopReason)]
pub enum StopReason {
    EndTurn,
    MaxTokens,
    StopSequence,
    ToolUse,
}

impl From<ChatFinish> for Stop {
    fn from(finish: ChatFinish) -> Self {
        let (reason, stop_sequence) = match finish {
            ChatFinish::Stop => (StopReason::EndTurn, None),
            ChatFinish::StopText(text) => (StopReason::StopSequence, Some(text)),
            ChatFinish::Length => (StopReason::MaxTokens, None),
            ChatFinish::ToolCalls => (StopReason::ToolUse, None),
        };
        Self { stop_reason: Some(reason), stop_sequence }
    }
}

/// Tokens read and made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = anthropic::Usage)]
pub struct Usage {
    /// Of the prompt, without those from the prefix cache.
    pub input_tokens: usize,
    /// Always 0: what is kept for later costs nothing.
    pub cache_creation_input_tokens: usize,
    /// Of the prompt, those that were found in the prefix cache; known after the first token.
    pub cache_read_input_tokens: usize,
    /// Of the message, thinking included.
    pub output_tokens: usize,
}

impl From<TokenCounts> for Usage {
    fn from(TokenCounts { prompt_tokens, cached_tokens, new_tokens }: TokenCounts) -> Self {
        Self {
            input_tokens: prompt_tokens - cached_tokens,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: cached_tokens,
            output_tokens: new_tokens,
        }
    }
}

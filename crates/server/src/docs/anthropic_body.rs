//! What `/v1/messages` and `/v1/messages/count_tokens` take.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::docs::generation_fields::GenerationFields;

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({
    "max_tokens": 64, "messages": [{"role": "user", "content": "Why is the sky blue?"}]
}))]
pub struct MessagesBody {
    #[serde(flatten)]
    prompt: MessagesFields,
    /// Longest output in tokens, thinking included.
    max_tokens: usize,
    /// Texts that end the output.
    stop_sequences: Option<Vec<String>>,
    /// Send the message as server-sent events while it is decoded.
    stream: Option<bool>,
    #[serde(flatten)]
    generation: GenerationFields,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"messages": [{"role": "user", "content": "Why is the sky blue?"}]}))]
pub struct CountTokensBody {
    /// Which model's chat template and tokenizer; may be left out while one model is served.
    model: Option<String>,
    #[serde(flatten)]
    prompt: MessagesFields,
}

/// A conversation, the tools in it, and what the output must be.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct MessagesFields {
    /// What was said, oldest first; at least one message. A last message of the role `assistant`
    /// is the beginning of the output, which goes on from there.
    messages: Vec<MessageParam>,
    /// What comes before the conversation: a text, or text blocks.
    system: Option<BlocksOrText>,
    /// Functions that the model may call.
    tools: Option<Vec<ToolParam>>,
    tool_choice: Option<ToolChoiceParam>,
    thinking: Option<ThinkingParam>,
    output_config: Option<OutputConfigParam>,
}

/// One message.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct MessageParam {
    /// Who speaks: `user`, `assistant` or `system`.
    role: String,
    /// A text, or blocks: `text`; of a user `tool_result`; of the assistant `tool_use`, `thinking`
    /// and `redacted_thinking`.
    content: BlocksOrText,
}

/// A text, or a list of blocks.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(untagged)]
pub enum BlocksOrText {
    Text(String),
    Blocks(Vec<Map<String, Value>>),
}

/// A function that the model may call.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct ToolParam {
    /// `custom`, or left out; there are no other tools here.
    r#type: Option<String>,
    /// What the model calls it by.
    name: String,
    /// What it does and when to use it.
    description: Option<String>,
    /// The JSON schema of its arguments.
    input_schema: Map<String, Value>,
    /// Calls that must come fit the schema with and without it.
    strict: Option<bool>,
}

/// Whether the model must call a tool.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct ToolChoiceParam {
    /// `auto` (the default), `any`, `tool` or `none`.
    r#type: String,
    /// The tool that must be called, with the type `tool`.
    name: Option<String>,
    /// At most one call.
    disable_parallel_tool_use: Option<bool>,
}

/// Whether a thinking model thinks; where it is left out, its chat template decides.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct ThinkingParam {
    /// `enabled`, `adaptive` (which means the same here) or `disabled`.
    r#type: String,
    /// With `enabled`: given to the chat template as `thinking_budget`. Nothing else holds the
    /// model to it; `max_tokens` counts thinking too.
    budget_tokens: Option<usize>,
    /// `omitted` leaves the text of the thinking out of the message.
    display: Option<String>,
}

/// How the output shall be.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct OutputConfigParam {
    /// `low`, `medium`, `high`, `xhigh` or `max`: given to the chat template as
    /// `reasoning_effort`.
    effort: Option<String>,
    /// `{"type": "json_schema", "schema": ..}`: the output is JSON that fits the schema.
    format: Option<Map<String, Value>>,
}

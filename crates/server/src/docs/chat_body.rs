//! What `/v1/chat/completions` and `/chat` take.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::docs::generation_fields::GenerationFields;

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({
    "messages": [{"role": "user", "content": "Why is the sky blue?"}], "max_tokens": 64
}))]
pub struct ChatBody {
    #[serde(flatten)]
    conversation: ConversationFields,
    /// Report the log-probabilities of the output's tokens.
    logprobs: Option<bool>,
    /// How many of the best tokens to report at each position, up to 20; needs `logprobs`.
    top_logprobs: Option<usize>,
    /// Report the log-probabilities of the prompt's tokens, with this many of the best, up to 20.
    prompt_logprobs: Option<usize>,
    /// Send the output as server-sent events while it is decoded.
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    /// Functions that the model may call: `{"type": "function", "function": {"name": ..,
    /// "description": .., "parameters": a JSON schema}}`.
    tools: Option<Vec<Value>>,
    /// `none`, `auto` (the default), `required`, or the function that must be called:
    /// `{"type": "function", "function": {"name": ..}}`.
    tool_choice: Option<Value>,
    /// Whether one output may have several calls; it may where this is left out.
    parallel_tool_calls: Option<bool>,
    /// `["text"]`.
    modalities: Option<Vec<String>>,
    #[serde(flatten)]
    generation: GenerationFields,
}

/// What `/chat` takes.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"messages": [{"role": "user", "content": "Hello"}]}))]
pub struct PlainChatBody {
    #[serde(flatten)]
    conversation: ConversationFields,
    /// Send the output as server-sent events while it is decoded.
    stream: Option<bool>,
    /// Put the message that is continued in front of the output.
    echo: Option<bool>,
    #[serde(flatten)]
    generation: GenerationFields,
}

/// A conversation, and how it is written out for the model.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct ConversationFields {
    /// What was said, oldest first; at least one message.
    messages: Vec<MessageBody>,
    /// Whether the model answers as the next speaker (the default) or goes on writing the last
    /// message.
    add_generation_prompt: Option<bool>,
    /// Whether the model goes on writing the last message, without what ends it.
    continue_final_message: Option<bool>,
    /// How much to think (`none` to `max`), for models whose chat template asks for it.
    reasoning_effort: Option<String>,
    /// Further variables for the model's chat template.
    chat_template_kwargs: Option<Map<String, Value>>,
}

/// One message. Further fields are handed to the model's chat template as they are.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct MessageBody {
    /// Who speaks: `system`, `user`, `assistant`, or what else the model knows.
    role: String,
    /// May be null beside tool calls.
    content: Option<MessageContent>,
    /// The calls of an assistant's earlier output.
    tool_calls: Option<Vec<Value>>,
    /// Which call a message of the role `tool` has the result of.
    tool_call_id: Option<String>,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[serde(untagged)]
pub enum MessageContent {
    Text(String),
    Parts(Vec<TextPart>),
}

#[derive(Deserialize, Serialize, ToSchema)]
pub struct TextPart {
    /// `text`: the model reads nothing else.
    r#type: String,
    /// Some of the message.
    text: String,
}

/// What a stream tells besides the text.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct StreamOptions {
    /// Send the counts of tokens as a last chunk.
    include_usage: Option<bool>,
    /// Send the counts so far with every chunk too; needs `include_usage`.
    continuous_usage_stats: Option<bool>,
}

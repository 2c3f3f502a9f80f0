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
    /// Report the log-probabilities of the answer's tokens.
    logprobs: Option<bool>,
    /// How many of the best tokens to report at each place, up to 20; needs `logprobs`.
    top_logprobs: Option<usize>,
    /// Send the answer as server-sent events while it is made.
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    /// Without tools only `none` and `auto`.
    tool_choice: Option<String>,
    /// As `tool_choice`, from an older version of OpenAI's API.
    function_call: Option<String>,
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
    /// Send the answer as server-sent events while it is made.
    stream: Option<bool>,
    /// Put the message that is continued in front of the answer.
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
    /// A piece of the message.
    text: String,
}

/// What a stream tells besides the text.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct StreamOptions {
    /// Send the counts of tokens as a last chunk.
    include_usage: Option<bool>,
}

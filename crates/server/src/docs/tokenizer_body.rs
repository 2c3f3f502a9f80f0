//! What `/tokenize` and `/detokenize` take.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::docs::chat_body::MessageBody;

/// A text, or a conversation as the model's chat template writes it.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"prompt": "Hello"}))]
pub struct TokenizeBody {
    /// Which model's tokenizer; may be left out while one model is served.
    model: Option<String>,
    /// The text.
    prompt: Option<String>,
    /// Another name of `prompt`.
    text: Option<String>,
    /// A conversation instead of a text.
    messages: Option<Vec<MessageBody>>,
    /// Whether the conversation ends with the generation prompt; the default is true.
    add_generation_prompt: Option<bool>,
    /// Whether the conversation ends with the last message's text, without what ends it.
    continue_final_message: Option<bool>,
    /// How much to think, for chat templates that ask for it.
    reasoning_effort: Option<String>,
    /// Further variables for the model's chat template.
    chat_template_kwargs: Option<Map<String, Value>>,
    /// Whether to add the tokens that begin a text; the default is true for a text, false for a
    /// conversation.
    add_special_tokens: Option<bool>,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"tokens": [19556]}))]
pub struct DetokenizeBody {
    /// Which model's tokenizer; may be left out while one model is served.
    model: Option<String>,
    /// The ids to write out.
    tokens: Vec<u32>,
}

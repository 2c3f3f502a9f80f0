//! What `/v1/responses` takes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::docs::generation_fields::GenerationFields;

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"input": "Why is the sky blue?", "max_output_tokens": 64}))]
pub struct ResponsesBody {
    /// A text, or a list of items: messages, calls of functions and their results, reasoning, and
    /// references to stored items.
    #[schema(value_type = Object)]
    input: Value,
    /// The system's message, for this response alone.
    instructions: Option<String>,
    /// Goes on from this stored response.
    previous_response_id: Option<String>,
    /// Whether the response can be retrieved and continued; it can where this is left out.
    store: Option<bool>,
    /// Up to 16 texts that are stored beside the response.
    metadata: Option<Map<String, Value>>,
    /// Longest output in tokens, reasoning included.
    max_output_tokens: Option<usize>,
    /// Ignored: it is about tools that a server runs.
    max_tool_calls: Option<usize>,
    /// How many of the best tokens to report at each position, up to 20.
    top_logprobs: Option<usize>,
    /// `message.output_text.logprobs`: report the log-probabilities of the text's tokens.
    include: Option<Vec<String>>,
    text: Option<TextBody>,
    /// Functions that the model may call: `{"type": "function", "name": .., "description": ..,
    /// "parameters": a JSON schema}`.
    tools: Option<Vec<Value>>,
    /// `none`, `auto` (the default), `required`, the function that must be called:
    /// `{"type": "function", "name": ..}`, or those that may: `{"type": "allowed_tools",
    /// "mode": "auto", "tools": [{"type": "function", "name": ..}]}`.
    #[schema(value_type = Option<Object>)]
    tool_choice: Option<Value>,
    /// Whether there may be several calls; there may where this is left out.
    parallel_tool_calls: Option<bool>,
    reasoning: Option<ReasoningBody>,
    /// `disabled`: a conversation that is too long is refused.
    truncation: Option<String>,
    /// Send the response as server-sent events while it is decoded.
    stream: Option<bool>,
    /// Needs `stream`; nothing in it is supported.
    stream_options: Option<Map<String, Value>>,
    /// Repeated in the response.
    user: Option<String>,
    /// Repeated in the response.
    safety_identifier: Option<String>,
    /// Whether the model answers as the next speaker (the default) or goes on with the last
    /// message.
    add_generation_prompt: Option<bool>,
    /// Whether the model goes on with the last message, without what ends it.
    continue_final_message: Option<bool>,
    /// As `reasoning.effort`.
    reasoning_effort: Option<String>,
    /// Further variables for the model's chat template.
    chat_template_kwargs: Option<Map<String, Value>>,
    #[serde(flatten)]
    generation: GenerationFields,
}

/// Which format the output's text has.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct TextBody {
    /// `{"type": "text"}`, `{"type": "json_object"}`, or `{"type": "json_schema", "name": ..,
    /// "schema": ..}`.
    format: Option<Map<String, Value>>,
    /// `low`, `medium` or `high`; ignored.
    verbosity: Option<String>,
}

/// How much to think.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct ReasoningBody {
    /// `none` to `max`, for models whose chat template asks for it.
    effort: Option<String>,
    /// Ignored: reasoning is given in full.
    summary: Option<String>,
}

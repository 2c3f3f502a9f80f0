//! What `/v1/completions` and `/completion` take.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::docs::chat_body::StreamOptions;
use crate::docs::generation_fields::GenerationFields;

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"prompt": "The capital of France is", "max_tokens": 8}))]
pub struct CompletionBody {
    prompt: PromptBody,
    /// Repeat the prompt before the output; with `logprobs`, report its log-probabilities too.
    echo: Option<bool>,
    /// How many of the best tokens to report at each position, besides the sampled one.
    logprobs: Option<usize>,
    /// Report the log-probabilities of the prompt's tokens, with this many of the best, up to 20.
    prompt_logprobs: Option<usize>,
    /// Decode this many choices and return the `n` whose tokens have the largest mean
    /// log-probability.
    best_of: Option<usize>,
    /// The text that follows the output, for models that can fill in a middle.
    suffix: Option<String>,
    /// Send the output as server-sent events while it is decoded.
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    #[serde(flatten)]
    generation: GenerationFields,
}

/// What `/completion` takes.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"prompt": "hello, who are you? "}))]
pub struct PlainCompletionBody {
    /// The text to go on from.
    prompt: String,
    /// Send the output as server-sent events while it is decoded.
    stream: Option<bool>,
    #[serde(flatten)]
    generation: GenerationFields,
}

/// A text, a list of texts, a list of token ids, or a list of such lists.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(untagged)]
pub enum PromptBody {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
}

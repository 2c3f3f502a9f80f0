//! What Ollama's routes take, and how they refuse.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::{Content, RefOr, Response};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

use crate::docs::generation_fields::Texts;
use crate::docs::refusals::Refusals;
use crate::ollama::error_shape::OllamaError;

/// What `/api/chat` takes.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({
    "messages": [{"role": "user", "content": "Why is the sky blue?"}], "stream": false
}))]
pub struct OllamaChatBody {
    /// Which model answers, with or without `:latest`. May be left out while one is served.
    model: Option<String>,
    /// What was said, oldest first. Where nothing was, the model is only looked up.
    messages: Option<Vec<OllamaMessage>>,
    /// Functions that the model may call, in OpenAI's shape.
    tools: Option<Vec<Value>>,
    #[serde(flatten)]
    output: OllamaOutputFields,
}

/// What both routes say about the output.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct OllamaOutputFields {
    /// What the output must look like: `json`, or a JSON schema.
    format: Option<Value>,
    options: Option<OllamaOptions>,
    /// Whether a thinking model thinks: true, false, or how much (`low`, `medium`, `high`).
    think: Option<Value>,
    /// Whether the output is streamed, a line of JSON for each delta; the default is true.
    stream: Option<bool>,
    /// Models stay loaded while the server runs, whatever is requested here.
    keep_alive: Option<Value>,
    /// Report the log-probabilities of the output's tokens.
    logprobs: Option<bool>,
    /// How many of the best tokens to report at each position, up to 20; needs `logprobs`.
    top_logprobs: Option<usize>,
}

/// One message. Further fields are handed to the model's chat template as they are.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct OllamaMessage {
    /// Who speaks: `system`, `user`, `assistant` or `tool`.
    role: String,
    /// What is said.
    content: Option<String>,
    /// What a thinking model wrote before its output.
    thinking: Option<String>,
    /// The calls of an assistant's earlier output, with arguments as objects.
    tool_calls: Option<Vec<Value>>,
    /// Which function a message of the role `tool` has the result of.
    tool_name: Option<String>,
}

/// What `/api/generate` takes.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"prompt": "Why is the sky blue?", "stream": false}))]
pub struct OllamaGenerateBody {
    /// Which model answers, with or without `:latest`. May be left out while one is served.
    model: Option<String>,
    /// The prompt. Where it is empty, the model is only looked up.
    prompt: Option<String>,
    /// What comes after the output, for models that fill in a middle.
    suffix: Option<String>,
    /// A system message before the prompt.
    system: Option<String>,
    /// Whether the prompt is taken as it is, without the chat template.
    raw: Option<bool>,
    #[serde(flatten)]
    output: OllamaOutputFields,
}

/// How tokens are sampled. Options about loading a model are accepted and ignored.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct OllamaOptions {
    /// Longest output in tokens; -1 and -2 for as many as fit.
    num_predict: Option<i64>,
    /// Flattens (above 1) or sharpens (below 1) the probabilities; 0.8 where nobody says.
    temperature: Option<f32>,
    /// Sample among this many best tokens; 0 means all, 40 is the default.
    top_k: Option<i64>,
    /// Sample among the best tokens that together have this probability; 0.9 where nobody says.
    top_p: Option<f32>,
    /// Drop tokens below this share of the best token's probability.
    min_p: Option<f32>,
    /// Sample among tokens that are about as probable as expected, up to this probability.
    typical_p: Option<f32>,
    /// Makes random draws repeatable; -1 draws a seed.
    seed: Option<i64>,
    /// One text or several that end the output.
    stop: Option<Texts>,
    /// Makes tokens that have occurred less probable; 1 changes nothing and is the default.
    repeat_penalty: Option<f32>,
    /// Subtracted from the score of each token the output has used.
    presence_penalty: Option<f32>,
    /// Subtracted once for each time the output has used the token.
    frequency_penalty: Option<f32>,
    /// How far back penalties look: -1 for all of the text, 0 for no penalties.
    repeat_last_n: Option<i64>,
    /// True: penalties are for all tokens.
    penalize_newline: Option<bool>,
    /// 0: it is not supported.
    mirostat: Option<f32>,
    /// 1: it is not supported.
    tfs_z: Option<f32>,
    /// Tokens of prompt and output together; at most those the model is served with.
    num_ctx: Option<usize>,
}

/// What `/api/embed` takes.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"input": ["a river", "a stream"]}))]
pub struct OllamaEmbedBody {
    /// Which model, with or without `:latest`. May be left out while one is served.
    model: Option<String>,
    /// One text or several.
    input: Texts,
    /// Whether the end of a text that is too long is left out (the default), or it is refused.
    truncate: Option<bool>,
    /// Give the first so many numbers of each embedding, brought to length 1 again.
    dimensions: Option<usize>,
    options: Option<OllamaOptions>,
    /// Models stay loaded while the server runs, whatever is requested here.
    keep_alive: Option<Value>,
}

/// What `/api/embeddings` takes.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"prompt": "a river"}))]
pub struct OllamaEmbeddingsBody {
    /// Which model, with or without `:latest`. May be left out while one is served.
    model: Option<String>,
    /// The text.
    prompt: Option<String>,
    options: Option<OllamaOptions>,
    /// Models stay loaded while the server runs, whatever is requested here.
    keep_alive: Option<Value>,
}

/// What `/api/show` takes.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({}))]
pub struct OllamaShowBody {
    /// Which model, with or without `:latest`. May be left out while one is served.
    model: Option<String>,
    /// An older name of `model`.
    name: Option<String>,
}

/// The statuses of [`Refusals`], in Ollama's shape.
pub enum OllamaRefusals {}

impl IntoResponses for OllamaRefusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut responses = Refusals::responses();
        for response in responses.values_mut() {
            if let RefOr::T(response) = response {
                let shape = Content::new(Some(OllamaError::schema()));
                response.content.insert("application/json".to_owned(), shape.into());
            }
        }
        responses
    }
}

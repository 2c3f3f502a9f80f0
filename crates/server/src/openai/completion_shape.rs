//! The responses of `/v1/completions`; chunks of a stream have the same shape.

use serde::Serialize;
use utoipa::ToSchema;

use crate::language::UsedHandle;
use crate::openai::logprobs::{CompletionLogprobs, PromptLogprobs};
use crate::openai::shape::{FinishReason, Head, UsageShape};

#[derive(Debug, Serialize, ToSchema)]
pub struct Completion<'a> {
    #[serde(flatten)]
    pub head: &'a Head,
    /// One for each output; in a stream, a delta of one.
    pub choices: Vec<CompletionChoice>,
    /// Absent from chunks unless requested; then null on all but the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<UsageShape>)]
    pub usage: Option<Option<UsageShape>>,
    /// What was done in another way than requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What it goes on from, with `kv_cache.handle`; of a stream, in the last chunk of each output,
    /// and beside the usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache: Option<UsedHandle>,
}

#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct CompletionChoice {
    /// The output, or a delta of it.
    pub text: String,
    /// Which output: those of the first prompt come first.
    pub index: usize,
    pub logprobs: Option<CompletionLogprobs>,
    pub finish_reason: Option<FinishReason>,
    /// Of the prompt's tokens, if requested; with the first delta.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<PromptLogprobs>,
    /// The prompt's tokens, with `return_token_ids`; with the first delta.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// The tokens of this text, with `return_token_ids`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

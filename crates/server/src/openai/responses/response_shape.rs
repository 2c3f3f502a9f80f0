//! The response object, and what else the routes of responses send.

use serde::Serialize;
use utoipa::ToSchema;

use crate::api_error::ApiError;
use crate::app_state::unix_seconds;
use crate::ids;
use crate::language::{Usage, UsedHandle};
use crate::openai::responses::item::Item;
use crate::openai::responses::request_echo::RequestEcho;

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ResponseShape {
    /// Names this response.
    pub id: String,
    /// `response`
    pub object: &'static str,
    /// When it was begun, in Unix seconds.
    pub created_at: u64,
    /// When it was complete, in Unix seconds.
    pub completed_at: Option<u64>,
    pub status: ResponseStatus,
    pub error: Option<ResponseFailure>,
    pub incomplete_details: Option<IncompleteDetails>,
    /// The model that decodes it.
    pub model: String,
    /// What the model has made: reasoning, messages and calls, in their order.
    pub output: Vec<Item>,
    /// Null while it is in progress.
    pub usage: Option<ResponseUsage>,
    #[serde(flatten)]
    pub echo: RequestEcho,
    /// What was done in another way than requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The prompt's tokens, with `return_token_ids`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// The output's tokens so far, with `return_token_ids`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_token_ids: Option<Vec<u32>>,
    /// What it goes on from, with `kv_cache.handle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache: Option<UsedHandle>,
}

/// How far a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResponseStatus {
    InProgress,
    Completed,
    Incomplete,
    Failed,
}

/// Why a response failed after it had begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ResponseFailure {
    /// `server_error` or `invalid_prompt`.
    pub code: &'static str,
    /// What went wrong.
    pub message: String,
}

/// Why a response is incomplete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct IncompleteDetails {
    /// `max_output_tokens`
    pub reason: &'static str,
}

/// Tokens of the conversation and of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ResponseUsage {
    /// Of the conversation.
    pub input_tokens: usize,
    pub input_tokens_details: InputTokens,
    /// Of the output.
    pub output_tokens: usize,
    pub output_tokens_details: OutputTokens,
    /// Of both.
    pub total_tokens: usize,
}

/// Input tokens of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct InputTokens {
    /// Those that were found in the cache.
    pub cached_tokens: usize,
    /// Always 0: prompts are cached without a request to.
    pub cache_write_tokens: usize,
}

/// Output tokens of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct OutputTokens {
    /// Those up to the end of the reasoning.
    pub reasoning_tokens: usize,
}

#[derive(Serialize, ToSchema)]
pub struct DeletedResponse {
    /// The response that is forgotten.
    pub id: String,
    /// `response`
    pub object: &'static str,
    /// `true`
    pub deleted: bool,
}

#[derive(Serialize, ToSchema)]
pub struct ItemList<'a> {
    /// `list`
    pub object: &'static str,
    /// The items.
    pub data: Vec<&'a Item>,
    /// The first item's name.
    pub first_id: Option<&'a str>,
    /// The last item's name.
    pub last_id: Option<&'a str>,
    /// Whether there are items after these; ask for them with `after`.
    pub has_more: bool,
}

impl ResponseShape {
    /// A response that has just begun.
    pub fn begin(model: &str, echo: RequestEcho) -> Self {
        Self {
            id: ids::unique("resp_"),
            object: "response",
            created_at: unix_seconds(),
            completed_at: None,
            status: ResponseStatus::InProgress,
            error: None,
            incomplete_details: None,
            model: model.to_owned(),
            output: Vec::new(),
            usage: None,
            echo,
            warnings: Vec::new(),
            prompt_token_ids: None,
            output_token_ids: None,
            kv_cache: None,
        }
    }
}

impl ResponseUsage {
    pub fn new(usage: Usage, reasoning_tokens: usize) -> Self {
        let Usage { prompt_tokens, cached_tokens, new_tokens } = usage;
        Self {
            input_tokens: prompt_tokens,
            input_tokens_details: InputTokens { cached_tokens, cache_write_tokens: 0 },
            output_tokens: new_tokens,
            output_tokens_details: OutputTokens { reasoning_tokens },
            total_tokens: prompt_tokens + new_tokens,
        }
    }
}

impl From<&ApiError> for ResponseFailure {
    fn from(error: &ApiError) -> Self {
        let is_clients = error.status().is_client_error();
        let code = if is_clients { "invalid_prompt" } else { "server_error" };
        Self { code, message: error.message().to_owned() }
    }
}

impl<'a> ItemList<'a> {
    pub fn new(data: Vec<&'a Item>, has_more: bool) -> Self {
        let first_id = data.first().map(|item| item.id());
        let last_id = data.last().map(|item| item.id());
        Self { object: "list", data, first_id, last_id, has_more }
    }
}

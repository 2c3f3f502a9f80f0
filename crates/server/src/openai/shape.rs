//! What all of OpenAI's responses have in common.

use serde::Serialize;
use terrace_engine::text::TextFinish;
use utoipa::ToSchema;

use crate::app_state::unix_seconds;
use crate::ids;
use crate::language::Usage;

/// The first fields of a response, and of every chunk of a streamed one.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Head {
    /// Names this response and no other.
    pub id: String,
    /// What kind of response this is.
    pub object: &'static str,
    /// When it was begun, in Unix seconds.
    pub created: u64,
    /// The model that answers.
    pub model: String,
    /// The program and version that answers.
    pub system_fingerprint: &'static str,
}

impl Head {
    pub fn new(id_prefix: &str, object: &'static str, model: &str) -> Self {
        Self {
            id: ids::unique(id_prefix),
            object,
            created: unix_seconds(),
            model: model.to_owned(),
            system_fingerprint: concat!("terrace-", env!("CARGO_PKG_VERSION")),
        }
    }
}

/// Tokens read and made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct UsageShape {
    /// Of all prompts.
    pub prompt_tokens: usize,
    /// Of all outputs.
    pub completion_tokens: usize,
    /// Of both.
    pub total_tokens: usize,
    pub prompt_tokens_details: PromptTokensDetails,
}

/// What became of the prompts' tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PromptTokensDetails {
    /// Those that were found in the prefix cache and not computed again.
    pub cached_tokens: usize,
}

impl From<Usage> for UsageShape {
    fn from(Usage { prompt_tokens, cached_tokens, new_tokens }: Usage) -> Self {
        Self {
            prompt_tokens,
            completion_tokens: new_tokens,
            total_tokens: prompt_tokens + new_tokens,
            prompt_tokens_details: PromptTokensDetails { cached_tokens },
        }
    }
}

/// Why the output ended; null while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    Stop,
    Length,
    ToolCalls,
}

impl From<&TextFinish> for FinishReason {
    fn from(finish: &TextFinish) -> Self {
        match finish {
            TextFinish::StopToken(_) | TextFinish::StopText(_) => Self::Stop,
            // `RequestOutputs` turns the others into errors, so only `Length` comes here.
            TextFinish::Length | TextFinish::Cancelled | TextFinish::Failed(_) => Self::Length,
        }
    }
}

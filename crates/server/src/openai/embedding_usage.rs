//! What texts without an output took.

use serde::Serialize;
use utoipa::ToSchema;

/// Tokens read.
#[derive(Debug, Serialize, ToSchema)]
pub struct EmbeddingUsage {
    /// Of all inputs.
    prompt_tokens: usize,
    /// The same: nothing is made.
    total_tokens: usize,
}

impl EmbeddingUsage {
    pub fn new(prompt_tokens: usize) -> Self {
        Self { prompt_tokens, total_tokens: prompt_tokens }
    }
}

//! What a request has cost, in tokens.

/// Tokens so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt_tokens: usize,
    /// Those of the prompts that were found in the prefix cache.
    pub cached_tokens: usize,
    pub new_tokens: usize,
}

//! A prompt of which nothing but its keys and values is wanted.

use terrace_cache::TokenId;

use crate::generate::request::Priority;
use crate::setup::kv_cache::RequestedKvCache;

#[derive(Clone, Debug, Default)]
pub struct HandlePrompt {
    pub tokens: Vec<TokenId>,
    /// What it wants of its cache; what it does not say is the server's.
    pub kv_cache: RequestedKvCache,
    pub cache_salt: String,
    pub priority: Priority,
}

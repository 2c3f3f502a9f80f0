//! What a user asked, in token ids. Immutable from submission to the last token.

use std::sync::Arc;

use crate::generate::sampling_params::SamplingParams;
use crate::generate::seq_cache::SeqCache;

use terrace_cache::TokenId;

/// Names a request inside one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Who goes first when both cannot; larger goes first, 0 is ordinary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(pub i32);

#[derive(Clone, Debug)]
pub struct Request {
    pub prompt: Vec<TokenId>,
    pub sampling: SamplingParams,
    pub priority: Priority,
    /// Requests share prefix pages only with requests of the same salt.
    pub cache_salt: String,
    /// `None` keeps every key and value as it is.
    pub cache: Option<Arc<SeqCache>>,
}

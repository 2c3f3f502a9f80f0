//! What a user asked, in token ids. Immutable from submission to the last token.

use std::sync::Arc;

use crate::generate::request_retention::RequestRetention;
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
    pub task: Task,
    pub priority: Priority,
    /// Requests share prefix pages only with requests of the same salt.
    pub cache_salt: String,
    /// `None` keeps every key and value as it is.
    pub cache: Option<Arc<SeqCache>>,
    /// How long its full pages stay known.
    pub retention: RequestRetention,
}

/// What is done with a prompt.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every request generates")]
pub enum Task {
    /// Tokens are sampled after it.
    Generate(SamplingParams),
    /// The model's last hidden state at its last token, which has seen all of it, is reported.
    Embed,
}

impl Request {
    /// How tokens are sampled, if they are.
    pub fn sampling(&self) -> Option<&SamplingParams> {
        match &self.task {
            Task::Generate(sampling) => Some(sampling),
            Task::Embed => None,
        }
    }

    /// Independent outputs.
    pub fn choices(&self) -> usize {
        self.sampling().map_or(1, |sampling| sampling.choices)
    }

    pub fn max_new_tokens(&self) -> usize {
        self.sampling().map_or(0, |sampling| sampling.max_new_tokens)
    }

    /// Tokens of the prompt and the longest output.
    pub fn most_tokens(&self) -> usize {
        self.prompt.len().saturating_add(self.max_new_tokens())
    }
}

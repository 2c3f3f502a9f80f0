//! What streams out of the engine, one request at a time.

use terrace_cache::policy::ReplayLog;

use crate::generate::cache_trace::CacheTrace;
use crate::guidance::GrammarFault;
use terrace_cache::TokenId;

#[derive(Clone, Debug, PartialEq)]
pub enum TokenEvent {
    /// How many of the prompt's tokens were found in the prefix cache when the request was first
    /// admitted. Comes once, before all others, and only if there were some.
    CachedPrompt {
        tokens: usize,
    },
    /// Log-probabilities of the prompt's tokens, if asked; the first token has none.
    Prompt(Vec<Option<TokenLogprobs>>),
    /// The prompt's embedding, if asked, as the model gives it; `hidden` numbers.
    Embedding(Vec<f32>),
    Token {
        choice: usize,
        id: TokenId,
        logprobs: Option<TokenLogprobs>,
    },
    /// Which slot each token of a choice went to, if asked; right before its last event.
    Replay {
        choice: usize,
        log: Box<ReplayLog>,
    },
    /// What the cache of a choice that ends holds, if asked.
    Cache(Box<CacheTrace>),
    /// The last event of a choice.
    Finished {
        choice: usize,
        reason: FinishReason,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop token was chosen; its `Token` event came before.
    Stop(TokenId),
    /// `max_new_tokens` were made.
    Length,
    Cancelled,
    Failed(Failure),
}

/// Why a choice could not go on, in words for its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("the step failed; the log says why")]
    Step,
    /// It takes more work or memory than it may, or cannot go on.
    #[error("the requested grammar cannot be followed: {0}")]
    BadGrammar(GrammarFault),
    #[error(
        "the options forbid every token: logit_bias, bad_words, no_repeat_ngram_size and \
         min_tokens must leave one that can come next"
    )]
    Forbidden,
    /// The engine's log has the fault.
    #[error(
        "the handle that the request goes on from is damaged or cannot be read; remove it and \
         create it again"
    )]
    BadHandle,
    /// The engine's log has the numbers.
    #[error(
        "the host tier has no room for the handle that the request goes on from; raise \
         --kv-tier host=..., or unpin others"
    )]
    NoRoomForHandle,
    /// The engine's log has the numbers.
    #[error(
        "the GPU has no memory left for a kv_cache of this kind; leave kv_cache out, or start the \
         server with a larger --gpu-arena"
    )]
    NoRoomForCache,
}

/// Natural logarithms of the model's own distribution, before any processor.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    /// Of the token itself.
    pub logprob: f32,
    /// The most probable tokens, best first.
    pub top: Vec<(TokenId, f32)>,
}

//! The door for users' own rules about the next token.

use terrace_cache::TokenId;

/// Changes the scores of the next token before one is chosen.
///
/// It runs on the engine's thread for each token of the requests that carry it: keep it short.
/// It must be a function of its arguments alone, so that a preempted and resumed request gives
/// the same answer.
pub trait LogitsProcessor: Send + Sync {
    /// `logits` has one score for each token of the vocabulary.
    fn process(&self, context: &LogitsContext<'_>, logits: &mut [f32]);
}

/// What a processor may know.
#[derive(Clone, Copy, Debug)]
pub struct LogitsContext<'a> {
    pub prompt: &'a [TokenId],
    /// New tokens so far.
    pub output: &'a [TokenId],
    /// Which of the request's answers this is.
    pub choice: usize,
}

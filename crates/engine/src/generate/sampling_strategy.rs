//! Sampling strategies of one's own: which token follows, given its processed logits.

use terrace_cache::TokenId;

use crate::generate::logits_processor::LogitsContext;

/// Samples the next token in place of the built-in strategies: greedy, or temperature, top-k,
/// top-p, min-p, typical-p and a draw.
///
/// It runs on a worker thread for each token of the requests that carry it: keep it short. It must
/// be a function of its arguments alone, so that a preempted and resumed request gives the same
/// output; [`LogitsContext::uniform`] is its source of randomness.
pub trait SamplingStrategy: Send + Sync {
    /// `logits`: [vocab], after penalties, processors and the grammar. A token whose logit is -inf
    /// or no number is forbidden, and sampling it fails the request; `None` where all are.
    fn sample(&self, context: &LogitsContext<'_>, logits: &[f32]) -> Option<TokenId>;
}

//! Makes tokens that occurred, in the prompt or the output, less probable (more, below 1).
//!
//! A token is penalised once, however often it occurred.

use crate::generate::sampler::token_counts::TokenCounts;
use terrace_cache::TokenId;

pub fn repetition_penalty(
    scores: &mut [f32],
    penalty: f32,
    prompt: &[TokenId],
    output: &[TokenId],
    counts: &mut TokenCounts,
) {
    if penalty == 1.0 {
        return;
    }
    let history = prompt.iter().chain(output).copied();
    counts.for_each(scores.len(), history, |id, _| {
        let score = scores[id];
        // A negative score is multiplied: dividing it would raise it.
        scores[id] = if score < 0.0 { score * penalty } else { score / penalty };
    });
}

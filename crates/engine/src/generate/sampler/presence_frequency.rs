//! OpenAI's two penalties: one for having occurred in the output, one for each time.
//!
//! The prompt does not count.

use crate::generate::sampler::token_counts::TokenCounts;
use terrace_cache::TokenId;

pub fn presence_frequency(
    scores: &mut [f32],
    presence_penalty: f32,
    frequency_penalty: f32,
    output: &[TokenId],
    counts: &mut TokenCounts,
) {
    if presence_penalty == 0.0 && frequency_penalty == 0.0 {
        return;
    }
    counts.for_each(scores.len(), output.iter().copied(), |id, count| {
        scores[id] -= presence_penalty + count as f32 * frequency_penalty;
    });
}

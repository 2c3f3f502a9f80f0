//! Forbids the tokens that end an output while it is too short.

use terrace_cache::TokenId;

pub fn min_new_tokens(
    scores: &mut [f32],
    min_new_tokens: usize,
    stop_ids: &[TokenId],
    output: &[TokenId],
) {
    if output.len() >= min_new_tokens {
        return;
    }
    for &stop in stop_ids {
        if let Some(score) = scores.get_mut(stop as usize) {
            *score = f32::NEG_INFINITY;
        }
    }
}

//! Leaves one token for the last place of an output that has reached its limit.

use terrace_cache::TokenId;

pub fn forced_eos(
    scores: &mut [f32],
    eos: Option<TokenId>,
    max_new_tokens: usize,
    output: &[TokenId],
) {
    let Some(eos) = eos else { return };
    if output.len() + 1 != max_new_tokens {
        return;
    }
    scores.fill(f32::NEG_INFINITY);
    if let Some(score) = scores.get_mut(eos as usize) {
        *score = 0.0;
    }
}

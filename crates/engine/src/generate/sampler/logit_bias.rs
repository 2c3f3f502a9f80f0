//! Scores the user moves by hand.

use terrace_cache::TokenId;

pub fn logit_bias(scores: &mut [f32], bias: &[(TokenId, f32)]) {
    for &(token, change) in bias {
        if let Some(score) = scores.get_mut(token as usize) {
            *score += change;
        }
    }
}

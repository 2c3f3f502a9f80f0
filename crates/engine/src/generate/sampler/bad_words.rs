//! Forbids each token that would complete one of the words that must not occur.

use terrace_cache::TokenId;

/// `words`: the tokens of each, at least one. The prompt does not count: a word that begins there
/// may end in the output.
pub fn bad_words(scores: &mut [f32], words: &[Vec<TokenId>], output: &[TokenId]) {
    for word in words {
        let Some((&last, begun)) = word.split_last() else { continue };
        if output.ends_with(begun)
            && let Some(score) = scores.get_mut(last as usize)
        {
            *score = f32::NEG_INFINITY;
        }
    }
}

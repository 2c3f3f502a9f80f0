//! Forbids each token that would complete a run of `size` tokens that occurred before.

use terrace_cache::TokenId;

/// The prompt counts. `size` 0 allows everything; 1 forbids every token that occurred.
pub fn no_repeat_ngram(scores: &mut [f32], size: usize, prompt: &[TokenId], output: &[TokenId]) {
    let tokens = prompt.len() + output.len();
    if size == 0 || tokens < size {
        return;
    }
    let token_at = |index: usize| match index.checked_sub(prompt.len()) {
        None => prompt[index],
        Some(index) => output[index],
    };
    let begun = size - 1;
    let tail = tokens - begun;
    for start in 0..=tokens - size {
        let repeats = (0..begun).all(|i| token_at(start + i) == token_at(tail + i));
        if repeats && let Some(score) = scores.get_mut(token_at(start + begun) as usize) {
            *score = f32::NEG_INFINITY;
        }
    }
}

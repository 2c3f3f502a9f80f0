//! Sharpens (below 1) or flattens (above 1) the distribution.

/// Divides by `temperature`, any positive number. The scores are first moved so that the best,
/// `max`, becomes 0: the distribution is the same, and a tiny temperature cannot overflow.
pub fn temperature(scores: &mut [f32], max: f32, temperature: f32) {
    for score in scores {
        *score = (*score - max) / temperature;
    }
}

//! The angles of one token.

/// The angle is an f32 product, as the models were trained; its sine and cosine are exact.
pub(crate) fn angles(
    position: i32,
    inv_freq: &[f32],
    scale: f32,
    cos: &mut [f32],
    sin: &mut [f32],
) {
    for ((cos, sin), inv_freq) in cos.iter_mut().zip(sin).zip(inv_freq) {
        let angle = position as f32 * inv_freq;
        let (exact_sin, exact_cos) = f64::from(angle).sin_cos();
        *cos = exact_cos as f32 * scale;
        *sin = exact_sin as f32 * scale;
    }
}

//! The best score of a row, in one pass the compiler can vectorise.

/// The lowest index of the largest score; `None` when all are -inf or not numbers.
pub fn argmax(scores: &[f32]) -> Option<usize> {
    const BLOCK: usize = 1024;
    let mut best = f32::NEG_INFINITY;
    let mut best_start = 0;
    for (number, block) in scores.chunks(BLOCK).enumerate() {
        let block_max = max(block);
        if block_max > best {
            best = block_max;
            best_start = number * BLOCK;
        }
    }
    if best == f32::NEG_INFINITY {
        return None;
    }
    let offset = scores[best_start..].iter().position(|&score| score == best)?;
    Some(best_start + offset)
}

/// The largest score, or -inf when none is a number.
pub fn max(scores: &[f32]) -> f32 {
    const LANES: usize = 16;
    // Not `f32::max`: this form is one machine instruction, and passes over NaN as wanted.
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (blocks, rest) = scores.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for block in blocks {
        for (lane, &score) in lanes.iter_mut().zip(block) {
            *lane = larger(*lane, score);
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |a, &b| larger(a, b))
}

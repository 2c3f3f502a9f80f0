//! Keeps the `k` best tokens.

/// Several may share the last place; all of them stay. `k` 0 keeps all. `best` is scratch.
pub fn top_k(scores: &mut [f32], k: usize, best: &mut Vec<f32>) {
    if k == 0 || k >= scores.len() {
        return;
    }
    let floor = kth_largest(scores, k, best);
    for score in scores {
        *score = if *score >= floor { *score } else { f32::NEG_INFINITY };
    }
}

/// The `k`-th largest score, or -inf when fewer than `k` are numbers above it.
///
/// One pass: a score is looked at closely only if it beats the `k`-th best of those before it,
/// which is rare after the first few thousand; most blocks are passed over by their maximum.
pub fn kth_largest(scores: &[f32], k: usize, best: &mut Vec<f32>) -> f32 {
    const BLOCK: usize = 64;
    assert!(k > 0, "the 0th largest score does not exist");
    best.clear();
    let mut floor = f32::NEG_INFINITY;
    for block in scores.chunks(BLOCK) {
        let beats = block.iter().fold(false, |beats, &score| beats | (score > floor));
        if !beats {
            continue;
        }
        for &score in block {
            if score > floor {
                best.push(score);
            }
        }
        if best.len() >= 2 * k.max(BLOCK) {
            floor = keep_largest(best, k);
        }
    }
    if best.len() < k { f32::NEG_INFINITY } else { keep_largest(best, k) }
}

/// Shortens `best` to its `k` largest and returns the least of them.
fn keep_largest(best: &mut Vec<f32>, k: usize) -> f32 {
    let (_, &mut floor, _) = best.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
    best.truncate(k);
    floor
}

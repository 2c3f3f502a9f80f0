//! Picks one of weighted candidates with one random number.

use super::softmax::{blocks, sum};

/// The index where the running sum of `weights` first exceeds `uniform * total`, where `uniform`
/// lies in [0, 1) and `total` is the weights' sum. Never one that weighs nothing.
pub fn draw(weights: &[f32], total: f64, uniform: f64) -> usize {
    let target = uniform * total;
    let mut start = 0;
    let mut mass = 0.0;
    for block in blocks(weights) {
        let block_mass = sum(block);
        if mass + block_mass > target {
            break;
        }
        mass += block_mass;
        start += block.len();
    }
    // The block's own sum may exceed this walk's by a rounding; the walk then ends in a later block
    // or at the last candidate.
    let mut chosen = start;
    for (index, &weight) in weights.iter().enumerate().skip(start) {
        if weight > 0.0 {
            chosen = index;
            mass += f64::from(weight);
            if mass > target {
                break;
            }
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::draw;

    /// Every third weighs nothing; the row crosses the blocks in which weights are summed.
    #[test]
    fn draws_where_the_running_sum_passes_the_target() {
        let weights: Vec<f32> = (0..1000).map(|index| (index % 3) as f32).collect();
        let total: f64 = 999.0;
        let mut running = 0.0;
        for (index, &weight) in weights.iter().enumerate() {
            for part in 0..2 * weight as usize {
                let uniform = (running + part as f64 / 2.0) / total;
                // A hair above the boundary: the division may have rounded down.
                assert_eq!(draw(&weights, total, uniform + 1e-9), index);
            }
            running += f64::from(weight);
        }
        assert_eq!(draw(&weights, total, 1.0 - f64::EPSILON / 2.0), 998);
    }
}

//! The batch sizes for which decoding steps are recorded.
//!
//! A step of fewer sequences runs as the next larger size, its spare rows empty. Small batches
//! cost little more than one row, so sizes may be far apart in proportion there; later ones are a
//! tile of the products' apart.

/// Ascending; the last is `max_seqs`.
pub(super) fn padded_sizes(max_seqs: usize) -> Vec<usize> {
    let small = [1, 2, 4].into_iter();
    let large = (1..).map(|tile| 8 * tile);
    let mut sizes: Vec<usize> =
        small.chain(large).take_while(|&size| size < max_seqs.min(MOST)).collect();
    sizes.push(max_seqs.min(MOST));
    sizes
}

/// Larger decoding steps are launched kernel by kernel: they take long enough to hide that.
const MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_rise_to_the_largest_batch() {
        assert_eq!(padded_sizes(1), [1]);
        assert_eq!(padded_sizes(3), [1, 2, 3]);
        assert_eq!(padded_sizes(8), [1, 2, 4, 8]);
        assert_eq!(padded_sizes(20), [1, 2, 4, 8, 16, 20]);
        assert_eq!(padded_sizes(1000).last(), Some(&MOST));
    }
}

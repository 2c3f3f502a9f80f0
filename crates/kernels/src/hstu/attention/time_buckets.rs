//! Buckets of time differences: `trunc(ln(max(|difference|, 1)) / step)`, at most the last one.
//!
//! The original computes the logarithm in f32, which decides on which side of an edge a difference
//! falls. Edges are found once with that arithmetic, so that no device takes logarithms.

/// Of the original.
const STEP: f32 = 0.301;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeBuckets {
    /// The least difference of each bucket after the first.
    edges: Vec<i64>,
}

impl TimeBuckets {
    /// `buckets` of them, those that differences of 64 bits never reach included.
    pub fn new(buckets: usize) -> Self {
        let mut edges = Vec::new();
        for bucket in 1..buckets as i64 {
            if bucket_of(i64::MAX) < bucket {
                break;
            }
            let (mut below, mut inside) = (0, i64::MAX);
            while 1 < inside - below {
                let middle = below + (inside - below) / 2;
                if bucket_of(middle) < bucket { below = middle } else { inside = middle }
            }
            edges.push(inside);
        }
        TimeBuckets { edges }
    }

    pub fn bucket(&self, difference: i64) -> usize {
        let size = difference.saturating_abs();
        self.edges.partition_point(|edge| *edge <= size)
    }

    /// The least difference of each bucket after the first.
    pub fn edges(&self) -> &[i64] {
        &self.edges
    }
}

fn bucket_of(size: i64) -> i64 {
    ((size.max(1) as f32).ln() / STEP) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_where_the_logarithm_has_them() {
        let buckets = TimeBuckets::new(129);
        for size in (0..100_000).chain([1 << 20, 1 << 40, i64::MAX - 1, i64::MAX]) {
            assert_eq!(buckets.bucket(size) as i64, bucket_of(size).min(128), "{size}");
            assert_eq!(buckets.bucket(-size), buckets.bucket(size));
        }
        assert_eq!(TimeBuckets::new(3).bucket(i64::MIN), 2);
    }
}

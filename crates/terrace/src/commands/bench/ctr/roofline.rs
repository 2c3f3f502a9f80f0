//! The least time of a batch: its bytes at the memory's speed, or its operations at the
//! multipliers', whichever is longer.

use super::dlrm::Dlrm;

#[derive(Clone, Copy)]
pub struct Rates {
    pub gb_per_second: Option<f64>,
    pub tflop_per_second: Option<f64>,
}

impl Rates {
    /// `weight_bytes`: of one weight where it is multiplied.
    pub fn us(self, dlrm: &Dlrm, samples: usize, weight_bytes: usize) -> Option<f64> {
        let bytes = (weights(dlrm) * weight_bytes) as f64 + samples as f64 * sample_bytes(dlrm);
        let bytes_us = self.gb_per_second.map(|rate| bytes / rate * 1e-3);
        let flops = samples as f64 * sample_flops(dlrm);
        let flops_us = self.tflop_per_second.map(|rate| flops / rate * 1e-6);
        [bytes_us, flops_us].into_iter().flatten().reduce(f64::max)
    }
}

/// Of all layers, without what is added.
fn weights(dlrm: &Dlrm) -> usize {
    let stack = |inputs: usize, sizes: &[usize]| -> usize {
        let inputs = [inputs].into_iter().chain(sizes.iter().copied());
        inputs.zip(sizes).map(|(inputs, outputs)| inputs * outputs).sum()
    };
    stack(dlrm.dense, &dlrm.bottom) + stack(dlrm.interaction(), &dlrm.top)
}

/// Keys and rows, as a hot cache has them, dense features and the result. What layers leave to the
/// next is small enough to stay on the chip.
fn sample_bytes(dlrm: &Dlrm) -> f64 {
    let Dlrm { slots, dim, dense, .. } = dlrm;
    (slots * (size_of::<i64>() + dim * size_of::<f32>()) + (dense + 1) * size_of::<f32>()) as f64
}

/// A multiplication and an addition for each weight, and for each number of each pair of vectors.
fn sample_flops(dlrm: &Dlrm) -> f64 {
    let pairs = (dlrm.slots + 1) * dlrm.slots / 2;
    2.0 * (weights(dlrm) + pairs * dlrm.dim) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_of_bytes_and_operations_counts() {
        let dlrm = Dlrm { slots: 2, dim: 4, dense: 3, bottom: vec![4], top: vec![5, 1] };
        // 4 + 3 products + 1 into 5, 3 into 4, 5 into 1.
        assert_eq!(weights(&dlrm), 12 + 40 + 5);
        assert!((sample_bytes(&dlrm) - 64.0).abs() < 1e-9);
        assert!((sample_flops(&dlrm) - 2.0 * (57.0 + 12.0)).abs() < 1e-9);
        let us = |gb, tflop, samples| {
            let rates = Rates { gb_per_second: gb, tflop_per_second: tflop };
            rates.us(&dlrm, samples, 2)
        };
        let near = |found: Option<f64>, want: f64| {
            assert!(found.is_some_and(|found| (found - want).abs() < 1e-9), "{found:?}, {want}");
        };
        assert_eq!(us(None, None, 10), None);
        near(us(Some(1.0), None, 10), 0.754);
        near(us(Some(1.0), Some(0.001), 10), 1.38);
        near(us(Some(0.1), Some(0.001), 10), 7.54);
    }
}

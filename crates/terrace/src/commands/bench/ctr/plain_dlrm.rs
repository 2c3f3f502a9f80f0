//! The same model in f64, sample by sample: what predictions are compared with.

use terrace_engine::predict::Samples;

use super::dlrm::{Dlrm, DlrmLayer};
use super::made_up_rows::row_of;

pub struct PlainDlrm {
    dim: usize,
    dense: usize,
    slots: usize,
    layers: [Vec<DlrmLayer>; 2],
}

impl PlainDlrm {
    pub fn new(dlrm: &Dlrm) -> Self {
        let Dlrm { dim, dense, slots, .. } = *dlrm;
        PlainDlrm { dim, dense, slots, layers: dlrm.layers() }
    }

    /// The probabilities of the first samples.
    pub fn predict(&self, samples: &Samples, count: usize) -> Vec<f64> {
        let dense = samples.dense.chunks_exact(self.dense);
        let keys = samples.tables[0].keys().chunks_exact(self.slots);
        dense.zip(keys).take(count).map(|(dense, keys)| self.sample(dense, keys)).collect()
    }

    fn sample(&self, dense: &[f32], keys: &[i64]) -> f64 {
        let [bottom, top] = &self.layers;
        let mut x: Vec<f64> = dense.iter().map(|number| f64::from(*number)).collect();
        for layer in bottom {
            x = relu(multiply(layer, &x));
        }
        let row = |key: &i64| row_of(*key, self.dim).into_iter().map(f64::from).collect();
        let vectors: Vec<Vec<f64>> = [x.clone()].into_iter().chain(keys.iter().map(row)).collect();
        for second in 1..vectors.len() {
            for first in 0..second {
                x.push(vectors[first].iter().zip(&vectors[second]).map(|(a, b)| a * b).sum());
            }
        }
        // By which HugeCTR evens the width out.
        x.push(0.0);
        let (last, others) = top.split_last().expect("it has layers above");
        for layer in others {
            x = relu(multiply(layer, &x));
        }
        1.0 / (1.0 + (-multiply(last, &x)[0]).exp())
    }
}

fn multiply(layer: &DlrmLayer, x: &[f64]) -> Vec<f64> {
    assert_eq!(x.len(), layer.inputs, "inputs of a layer");
    let mut sums: Vec<f64> = layer.bias.iter().map(|bias| f64::from(*bias)).collect();
    for (x, weights) in x.iter().zip(layer.weight.chunks_exact(layer.outputs)) {
        sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += x * f64::from(*weight));
    }
    sums
}

fn relu(numbers: Vec<f64>) -> Vec<f64> {
    numbers.into_iter().map(|number| number.max(0.0)).collect()
}

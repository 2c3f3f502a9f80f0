//! Adamax: as Adam, with the largest gradient in place of the mean square.

use super::optimiser::{Optimiser, OptimiserStep, zeros};
use super::options::OptimiserOptions;

pub(super) struct Adamax {
    betas: [f64; 2],
    eps: f64,
    weight_decay: f64,
    means: Vec<Vec<f32>>,
    largest: Vec<Vec<f32>>,
}

impl Adamax {
    pub fn new(options: &OptimiserOptions, counts: &[usize]) -> Self {
        Adamax {
            betas: options.betas(),
            eps: options.eps(),
            weight_decay: options.weight_decay(),
            means: zeros(counts),
            largest: zeros(counts),
        }
    }
}

impl Optimiser for Adamax {
    fn change(&mut self, index: usize, values: &mut [f32], gradient: &[f32], step: OptimiserStep) {
        let [first, second] = self.betas;
        let size = (step.learning_rate / (1.0 - first.powi(step.number as i32))) as f32;
        let (part, decay) = ((1.0 - first) as f32, self.weight_decay as f32);
        let (second, eps) = (second as f32, self.eps as f32);
        let state = self.means[index].iter_mut().zip(&mut self.largest[index]);
        for ((value, gradient), (mean, largest)) in values.iter_mut().zip(gradient).zip(state) {
            let gradient = gradient + decay * *value;
            *mean += part * (gradient - *mean);
            *largest = (*largest * second).max(gradient.abs() + eps);
            *value -= size * (*mean / *largest);
        }
    }

    fn state(&mut self) -> Vec<(&'static str, &mut Vec<Vec<f32>>)> {
        vec![("means", &mut self.means), ("largest", &mut self.largest)]
    }
}

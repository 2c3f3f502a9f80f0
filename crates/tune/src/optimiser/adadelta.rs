//! Adadelta: steps are as large as steps have been, over gradients as they have been.

use super::optimiser::{Optimiser, OptimiserStep, zeros};
use super::options::OptimiserOptions;

pub(super) struct Adadelta {
    rho: f64,
    eps: f64,
    weight_decay: f64,
    squares: Vec<Vec<f32>>,
    steps: Vec<Vec<f32>>,
}

impl Adadelta {
    pub fn new(options: &OptimiserOptions, counts: &[usize]) -> Self {
        Adadelta {
            rho: options.adadelta_rho.unwrap_or(0.9),
            eps: options.eps(),
            weight_decay: options.weight_decay(),
            squares: zeros(counts),
            steps: zeros(counts),
        }
    }
}

impl Optimiser for Adadelta {
    fn change(&mut self, index: usize, values: &mut [f32], gradient: &[f32], step: OptimiserStep) {
        let (rho, part) = (self.rho as f32, (1.0 - self.rho) as f32);
        let (eps, decay) = (self.eps as f32, self.weight_decay as f32);
        let rate = step.learning_rate as f32;
        let state = self.squares[index].iter_mut().zip(&mut self.steps[index]);
        for ((value, gradient), (square, steps)) in values.iter_mut().zip(gradient).zip(state) {
            let gradient = gradient + decay * *value;
            *square = *square * rho + part * gradient * gradient;
            let change = (*steps + eps).sqrt() / (*square + eps).sqrt() * gradient;
            *steps = *steps * rho + part * change * change;
            *value -= rate * change;
        }
    }

    fn state(&mut self) -> Vec<(&'static str, &mut Vec<Vec<f32>>)> {
        vec![("squares", &mut self.squares), ("steps", &mut self.steps)]
    }
}

//! Stochastic gradient descent, with momentum where it is asked for.

use super::optimiser::{Optimiser, OptimiserStep, zeros};
use super::options::OptimiserOptions;

pub(super) struct Sgd {
    weight_decay: f64,
    momentum: f64,
    dampening: f64,
    moving: Vec<Vec<f32>>,
}

impl Sgd {
    pub fn new(options: &OptimiserOptions, counts: &[usize]) -> Self {
        Sgd {
            weight_decay: options.weight_decay(),
            momentum: options.momentum.unwrap_or(0.0),
            dampening: options.dampening.unwrap_or(0.0),
            moving: zeros(counts),
        }
    }
}

impl Optimiser for Sgd {
    fn change(&mut self, index: usize, values: &mut [f32], gradient: &[f32], step: OptimiserStep) {
        let (decay, rate) = (self.weight_decay as f32, step.learning_rate as f32);
        let momentum = self.momentum as f32;
        // The first gradient begins to move whole; without momentum, each does.
        let is_whole = step.number == 1 || self.momentum == 0.0;
        let part = if is_whole { 1.0 } else { 1.0 - self.dampening } as f32;
        let moving = self.moving[index].iter_mut();
        for ((value, gradient), moving) in values.iter_mut().zip(gradient).zip(moving) {
            let gradient = gradient + decay * *value;
            *moving = *moving * momentum + part * gradient;
            *value -= rate * *moving;
        }
    }

    fn state(&mut self) -> Vec<(&'static str, &mut Vec<Vec<f32>>)> {
        vec![("moving", &mut self.moving)]
    }
}

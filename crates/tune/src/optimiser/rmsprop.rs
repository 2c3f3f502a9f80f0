//! RMSprop: gradients over the root of their mean square, with momentum where it is asked for.

use super::optimiser::{Optimiser, OptimiserStep, zeros};
use super::options::OptimiserOptions;

pub(super) struct RmsProp {
    alpha: f64,
    eps: f64,
    weight_decay: f64,
    momentum: f64,
    squares: Vec<Vec<f32>>,
    moving: Vec<Vec<f32>>,
}

impl RmsProp {
    pub fn new(options: &OptimiserOptions, counts: &[usize]) -> Self {
        RmsProp {
            alpha: options.rmsprop_alpha.unwrap_or(0.99),
            eps: options.eps(),
            weight_decay: options.weight_decay(),
            momentum: options.momentum.unwrap_or(0.0),
            squares: zeros(counts),
            moving: zeros(counts),
        }
    }
}

impl Optimiser for RmsProp {
    fn change(&mut self, index: usize, values: &mut [f32], gradient: &[f32], step: OptimiserStep) {
        let (alpha, part) = (self.alpha as f32, (1.0 - self.alpha) as f32);
        let (eps, decay) = (self.eps as f32, self.weight_decay as f32);
        let (momentum, rate) = (self.momentum as f32, step.learning_rate as f32);
        let state = self.squares[index].iter_mut().zip(&mut self.moving[index]);
        for ((value, gradient), (square, moving)) in values.iter_mut().zip(gradient).zip(state) {
            let gradient = gradient + decay * *value;
            *square = *square * alpha + part * gradient * gradient;
            // Without momentum nothing of it stays.
            *moving = *moving * momentum + gradient / (square.sqrt() + eps);
            *value -= rate * *moving;
        }
    }

    fn state(&mut self) -> Vec<(&'static str, &mut Vec<Vec<f32>>)> {
        vec![("squares", &mut self.squares), ("moving", &mut self.moving)]
    }
}

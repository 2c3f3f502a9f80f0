//! Adam, and AdamW, which shrinks values by themselves and not through the gradient.

use super::optimiser::{Optimiser, OptimiserStep, zeros};
use super::options::{OptimiserKind, OptimiserOptions};

pub(super) struct Adam {
    betas: [f64; 2],
    eps: f64,
    weight_decay: f64,
    is_decoupled: bool,
    means: Vec<Vec<f32>>,
    squares: Vec<Vec<f32>>,
}

impl Adam {
    pub fn new(options: &OptimiserOptions, counts: &[usize]) -> Self {
        Adam {
            betas: options.betas(),
            eps: options.eps(),
            weight_decay: options.weight_decay(),
            is_decoupled: options.kind == OptimiserKind::AdamW,
            means: zeros(counts),
            squares: zeros(counts),
        }
    }
}

impl Optimiser for Adam {
    fn change(&mut self, index: usize, values: &mut [f32], gradient: &[f32], step: OptimiserStep) {
        let [first, second] = self.betas;
        let rate = step.learning_rate;
        let corrections = self.betas.map(|beta| 1.0 - beta.powi(step.number as i32));
        let size = (rate / corrections[0]) as f32;
        let root = corrections[1].sqrt() as f32;
        let shrink = if self.is_decoupled { 1.0 - rate * self.weight_decay } else { 1.0 } as f32;
        let decay = if self.is_decoupled { 0.0 } else { self.weight_decay as f32 };
        let (mean_part, square_part) = ((1.0 - first) as f32, (1.0 - second) as f32);
        let (second, eps) = (second as f32, self.eps as f32);
        let state = self.means[index].iter_mut().zip(&mut self.squares[index]);
        for ((value, gradient), (mean, square)) in values.iter_mut().zip(gradient).zip(state) {
            *value *= shrink;
            let gradient = gradient + decay * *value;
            *mean += mean_part * (gradient - *mean);
            *square = *square * second + square_part * gradient * gradient;
            let divisor = square.sqrt() / root + eps;
            *value -= size * (*mean / divisor);
        }
    }

    fn state(&mut self) -> Vec<(&'static str, &mut Vec<Vec<f32>>)> {
        vec![("means", &mut self.means), ("squares", &mut self.squares)]
    }
}

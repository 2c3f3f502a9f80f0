//! Column by column; sums are carried in f64, so that it can serve as the truth.

use super::DiceRule;

/// x, out: `[rows, dim]`
pub(crate) fn dice(x: &[f32], dim: usize, rule: DiceRule, out: &mut [f32]) {
    let rows = (x.len() / dim) as f64;
    for column in 0..dim {
        let numbers = || x.iter().skip(column).step_by(dim).map(|x| f64::from(*x));
        let mean = numbers().sum::<f64>() / rows;
        let variance = numbers().map(|x| (x - mean).powi(2)).sum::<f64>() / rows;
        let factor = 1.0 / (variance + f64::from(rule.eps)).sqrt();
        for (out, x) in out.iter_mut().skip(column).step_by(dim).zip(numbers()) {
            *out = number(x, mean, factor, rule.alpha);
        }
    }
}

/// One row with known statistics, in place.
pub(super) fn row(x: &mut [f32], means: &[f32], factors: &[f32], alpha: f32) {
    for ((x, mean), factor) in x.iter_mut().zip(means).zip(factors) {
        *x = number(f64::from(*x), f64::from(*mean), f64::from(*factor), alpha);
    }
}

fn number(x: f64, mean: f64, factor: f64, alpha: f32) -> f32 {
    let part = 1.0 / (1.0 + ((mean - x) * factor).exp());
    (part * x + (1.0 - part) * f64::from(alpha) * x) as f32
}

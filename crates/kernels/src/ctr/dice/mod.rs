//! Dice: a rectifier whose threshold is where the batch is. With the mean and the variance of a
//! column over all rows, `p = sigmoid((x - mean) / sqrt(variance + eps))`, and
//! `out = p * x + (1 - p) * alpha * x`.
//!
//! x: act `[rows, dim]` · out: act `[rows, dim]`. A row's result depends on all rows: of all ops
//! this one alone.
//!
//! Roofline: 16 bytes and about 30 flops per element, where columns are read three times; bound by
//! cache bandwidth.

pub(crate) mod reference;

use terrace_device::{SharedRows, View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiceRule {
    pub alpha: f32,
    pub eps: f32,
}

/// Columns of a task: those of a cache line.
const COLUMNS: usize = 16;

pub(crate) fn dice(ctx: &CpuCtx, x: View<'_>, rule: DiceRule, mut out: ViewMut<'_>) {
    let [rows, dim] = x.dims();
    assert_eq!(out.dims(), [rows, dim], "out of dice");
    let out = SharedRows::<f32>::new(&mut out);
    ctx.for_rows(dim.div_ceil(COLUMNS), rows * COLUMNS, &|block| {
        let columns = block * COLUMNS..dim.min((block + 1) * COLUMNS);
        let (mut means, mut factors) = ([0.0; COLUMNS], [0.0; COLUMNS]);
        statistics(x, columns.start, rule.eps, &mut means[..columns.len()], &mut factors);
        for row in 0..rows {
            // SAFETY: each block of columns is one task's.
            let out = unsafe { out.part_mut(row, columns.clone()) };
            out.copy_from_slice(&x.row(row)[columns.clone()]);
            let (means, factors) = (&means[..out.len()], &factors[..out.len()]);
            ctx.simd.run(Dice { x: out, means, factors, alpha: rule.alpha });
        }
    });
}

/// The mean of each column from `first` on, and one over its standard deviation.
fn statistics(x: View<'_>, first: usize, eps: f32, means: &mut [f32], factors: &mut [f32]) {
    let [rows, _] = x.dims();
    let mut sums = [0.0f64; COLUMNS];
    for row in 0..rows {
        let x: &[f32] = &x.row(row)[first..first + means.len()];
        sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    let centres = sums.map(|sum| sum / rows as f64);
    let mut squares = [0.0f64; COLUMNS];
    for row in 0..rows {
        let x: &[f32] = &x.row(row)[first..first + means.len()];
        for ((square, x), centre) in squares.iter_mut().zip(x).zip(centres) {
            *square += (f64::from(*x) - centre).powi(2);
        }
    }
    let numbers = means.iter_mut().zip(factors).zip(centres.into_iter().zip(squares));
    for ((mean, factor), (centre, square)) in numbers {
        *mean = centre as f32;
        *factor = (1.0 / (square / rows as f64 + f64::from(eps)).sqrt()) as f32;
    }
}

/// One row, in place.
struct Dice<'a> {
    x: &'a mut [f32],
    means: &'a [f32],
    factors: &'a [f32],
    alpha: f32,
}

impl Kernel for Dice<'_> {
    fn reference(self) {
        reference::row(self.x, self.means, self.factors, self.alpha);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let (one, alpha) = (lanes.splat(1.0), lanes.splat(self.alpha));
        let statistics = self.means.chunks(L::COUNT).zip(self.factors.chunks(L::COUNT));
        for (to, (means, factors)) in self.x.chunks_mut(L::COUNT).zip(statistics) {
            let x = lanes.read(to);
            let distance = lanes.mul(lanes.sub(lanes.read(means), x), lanes.read(factors));
            let part = lanes.div(one, lanes.add(one, lanes.exp(distance)));
            let slope = lanes.mul_add(part, lanes.sub(one, alpha), alpha);
            lanes.write(lanes.mul(slope, x), to);
        }
    }
}

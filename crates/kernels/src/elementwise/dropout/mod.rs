//! Numbers left out at random; the others are scaled, so that the mean stays.
//!
//! x, out: f32 `[rows, dim]`
//!
//! Whether a number is left out depends on the seed, its sequence, its position and its column
//! alone: whoever computes it again, in whatever portions, leaves out the same ones.
//!
//! Roofline: 8 bytes and some ten integer operations per element.

pub(crate) mod cuda;

use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::random::SplitMix;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    pub seed: u64,
    /// Of the numbers that are left out, from 0 to 1.
    pub share: f32,
    /// Rows of each sequence.
    pub row_tokens: usize,
    /// Where in its sequence the first of them is.
    pub position: usize,
}

pub(crate) fn drop_out(ctx: &CpuCtx, x: View<'_>, dropout: Dropout, out: ViewMut<'_>) {
    let [rows, dim] = x.dims();
    assert_eq!(out.dims(), [rows, dim], "out of drop_out");
    let (threshold, scale) = (dropout.threshold(), dropout.scale());
    ctx.write_rows::<f32>(out, |row, out| {
        let mut random = dropout.of_row(row);
        for (out, x) in out.iter_mut().zip(x.row::<f32>(row)) {
            *out = if random.bits() >> 32 < threshold { 0.0 } else { scale * x };
        }
    });
}

impl Dropout {
    /// Numbers are left out whose upper half of random bits is below.
    fn threshold(&self) -> u64 {
        (f64::from(self.share) * 2f64.powi(32)) as u64
    }

    /// Of the numbers that stay.
    fn scale(&self) -> f32 {
        1.0 / (1.0 - self.share)
    }

    fn of_row(&self, row: usize) -> SplitMix {
        let (seq, position) = (row / self.row_tokens, self.position + row % self.row_tokens);
        let place = (seq as u64) << 32 | position as u64;
        SplitMix::new(self.seed ^ SplitMix::new(place).bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::cpu_options::{Compute, CpuOptions};
    use crate::ops::Ops;

    fn dropped(x: &[f32], rows: usize, dropout: Dropout) -> Vec<f32> {
        let ops = Ops::cpu(CpuOptions { threads: 2, level: None, compute: Compute::F32 });
        let ops = ops.expect("the processor's level");
        let shape = [rows, x.len() / rows];
        let mut out = vec![f32::NAN; x.len()];
        let tuning = ops.tuning().expect("a CPU");
        tuning.drop_out(View::of(x, shape), dropout, ViewMut::of(&mut out, shape));
        out
    }

    #[test]
    fn a_share_is_left_out_and_the_mean_stays() {
        let (rows, dim, share) = (40, 500, 0.3);
        let x = vec![2.0; rows * dim];
        let dropout = Dropout { seed: 3, share, row_tokens: 20, position: 7 };
        let out = dropped(&x, rows, dropout);
        let kept = 2.0 / (1.0 - share);
        assert!(out.iter().all(|x| *x == 0.0 || (*x - kept).abs() < 1e-6));
        // Five standard deviations of 20,000 draws.
        let left_out = out.iter().filter(|x| **x == 0.0).count() as f32 / out.len() as f32;
        assert!((left_out - share).abs() < 0.0163, "{left_out}");
        let columns: Vec<_> = (0..dim).filter(|column| out[*column] == 0.0).collect();
        let next: Vec<_> = (0..dim).filter(|column| out[dim + column] == 0.0).collect();
        assert_ne!(columns, next, "rows are drawn apart");
        assert_ne!(out, dropped(&x, rows, Dropout { seed: 4, ..dropout }), "so are seeds");
        assert_eq!(dropped(&x, rows, Dropout { share: 0.0, ..dropout }), x);
    }

    /// Two sequences of 9 tokens, whole and cut after the fifth.
    #[test]
    fn what_is_left_out_does_not_depend_on_the_portion() {
        let (dim, x) = (33, SplitMix::new(8).numbers(18 * 33));
        let dropout = |row_tokens, position| Dropout { seed: 5, share: 0.5, row_tokens, position };
        let whole = dropped(&x, 18, dropout(9, 0));
        let part = |numbers: &[f32], first: usize, tokens: usize| -> Vec<f32> {
            let seqs = numbers.chunks_exact(9 * dim);
            seqs.flat_map(|seq| &seq[first * dim..][..tokens * dim]).copied().collect()
        };
        for (first, tokens) in [(0, 5), (5, 4)] {
            let found = dropped(&part(&x, first, tokens), 2 * tokens, dropout(tokens, first));
            assert_eq!(found, part(&whole, first, tokens));
        }
    }
}

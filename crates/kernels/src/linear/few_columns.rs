//! Products of many rows with a matrix of few columns, as the first layer over dense features has.
//!
//! x: f32 `[rows, columns]` · out: f32 `[rows, outputs]`; rows may be strided
//!
//! A lane is an output: a number of `x` meets sixteen weights at once, and no sum goes across
//! lanes. A sum begins with the bias and goes on in the columns' order, on every level.
//!
//! Roofline: `columns / 2` flops per byte written; bound by memory.

use terrace_device::{Buffer, DType, View, ViewMut};

use super::biased_weight::BiasedWeight;
use super::unpack;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::error::Error;

/// In f32, column by column.
pub(crate) struct FewColumns {
    outputs: usize,
    columns: usize,
    /// f32 `[columns, stride]`, zeros behind the outputs
    weights: Buffer,
    /// `[stride]`, zeros behind the outputs
    bias: Vec<f32>,
}

/// Numbers from a column to the next are a multiple of this: whole vectors.
const STRIDE: usize = 16;
/// Vectors of outputs that are summed at once.
const TOGETHER: usize = 4;

impl FewColumns {
    pub fn pack(biased: &BiasedWeight) -> Result<Self, Error> {
        let (outputs, columns) = (biased.weight.rows(), biased.weight.columns());
        let stride = outputs.next_multiple_of(STRIDE);
        let bytes = columns * stride * size_of::<f32>();
        let mut weights = Buffer::zeroed(bytes, "weights of few columns")?;
        let mut view = weights.view_mut(DType::F32, [columns * stride]);
        let across = view.as_mut_slice::<f32>();
        let mut row = vec![0.0; columns];
        for output in 0..outputs {
            let bytes = biased.weight.row(output);
            unpack::reference::unpack(biased.weight.format(), bytes, &mut row);
            for (column, weight) in row.iter().enumerate() {
                across[column * stride + output] = *weight;
            }
        }
        let mut bias = biased.bias.clone().unwrap_or_default();
        bias.resize(stride, 0.0);
        Ok(FewColumns { outputs, columns, weights, bias })
    }

    pub fn outputs(&self) -> usize {
        self.outputs
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    pub fn bytes(&self) -> usize {
        self.weights.len()
    }

    /// `relu`: negative results become 0.
    pub fn project(&self, ctx: &CpuCtx, x: View<'_>, relu: bool, out: ViewMut<'_>) {
        let [rows, columns] = x.dims();
        assert_eq!(columns, self.columns, "columns of weight");
        assert_eq!(out.dims(), [rows, self.outputs], "out of project");
        let weights = self.weights.view(DType::F32, [columns * self.bias.len()]);
        let weights = weights.as_slice::<f32>();
        ctx.write_rows(out, |row, out| {
            ctx.simd.run(OneRow { x: x.row(row), weights, bias: &self.bias, relu, out });
        });
    }
}

struct OneRow<'a> {
    x: &'a [f32],
    /// `[columns, stride]`
    weights: &'a [f32],
    /// `[stride]`
    bias: &'a [f32],
    relu: bool,
    out: &'a mut [f32],
}

impl OneRow<'_> {
    #[inline(always)]
    fn least(&self) -> f32 {
        if self.relu { 0.0 } else { f32::NEG_INFINITY }
    }

    /// `N` vectors of outputs from `start` on.
    #[inline(always)]
    fn outputs<L: Lanes, const N: usize>(&mut self, lanes: L, start: usize) {
        let stride = self.bias.len();
        let mut sums = [lanes.splat(0.0); N];
        for (n, sum) in sums.iter_mut().enumerate() {
            *sum = lanes.read(&self.bias[start + n * L::COUNT..][..L::COUNT]);
        }
        for (x, weights) in self.x.iter().zip(self.weights.chunks_exact(stride)) {
            let x = lanes.splat(*x);
            let weights = &weights[start..][..N * L::COUNT];
            for (n, sum) in sums.iter_mut().enumerate() {
                *sum = lanes.mul_add(x, lanes.read(&weights[n * L::COUNT..][..L::COUNT]), *sum);
            }
        }
        let least = lanes.splat(self.least());
        for (n, sum) in sums.iter().enumerate() {
            let rest = self.out.get_mut(start + n * L::COUNT..).unwrap_or_default();
            let count = rest.len().min(L::COUNT);
            lanes.write(lanes.max(least, *sum), &mut rest[..count]);
        }
    }
}

impl Kernel for OneRow<'_> {
    fn reference(self) {
        let (stride, least) = (self.bias.len(), self.least());
        for (output, out) in self.out.iter_mut().enumerate() {
            let weights = self.weights[output..].iter().step_by(stride);
            let sum = self
                .x
                .iter()
                .zip(weights)
                .fold(self.bias[output], |sum, (x, weight)| x.mul_add(*weight, sum));
            // What is no number stays so.
            *out = if sum < least { least } else { sum };
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(mut self, lanes: L) {
        let (mut start, stride) = (0, self.bias.len());
        while start + TOGETHER * L::COUNT <= stride {
            self.outputs::<L, TOGETHER>(lanes, start);
            start += TOGETHER * L::COUNT;
        }
        while start < stride {
            self.outputs::<L, 1>(lanes, start);
            start += L::COUNT;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cpu::cpu_level::CpuLevel;
    use crate::cpu::cpu_options::{Compute, CpuOptions};
    use crate::linear::matrix::Matrix;
    use crate::linear::weight_format::WeightFormat;
    use crate::random::SplitMix;

    fn matrix(weights: &[f32], columns: usize) -> Matrix {
        let mut buffer = Buffer::zeroed(size_of_val(weights), "weights").expect("a small buffer");
        let bytes = buffer.bytes_mut().as_chunks_mut().0.iter_mut();
        bytes.zip(weights).for_each(|(bytes, weight)| *bytes = weight.to_le_bytes());
        Matrix::new(WeightFormat::F32, weights.len() / columns, columns, Arc::new(buffer))
    }

    /// Every level has the bits of the specification, which is near f64.
    fn check(random: &mut SplitMix, rows: usize, columns: usize, outputs: usize) {
        let (weights, numbers) =
            (random.numbers(outputs * columns), random.numbers(rows * columns));
        let bias = (random.below(2) == 0).then(|| random.numbers(outputs));
        let relu = random.below(2) == 0;
        let biased = BiasedWeight { weight: matrix(&weights, columns), bias: bias.clone() };
        let placed = FewColumns::pack(&biased).expect("a small matrix");
        let results: Vec<Vec<f32>> = CpuLevel::available()
            .into_iter()
            .map(|level| {
                let options = CpuOptions { threads: 2, level: Some(level), compute: Compute::F32 };
                let ctx = CpuCtx::new(options).expect("a level that there is");
                let mut out = vec![f32::NAN; rows * outputs];
                let to = ViewMut::of(&mut out, [rows, outputs]);
                placed.project(&ctx, View::of(&numbers, [rows, columns]), relu, to);
                out
            })
            .collect();
        for (at, found) in results[0].iter().enumerate() {
            let (row, output) = (at / outputs, at % outputs);
            let x = &numbers[row * columns..][..columns];
            let products = x.iter().zip(&weights[output * columns..][..columns]);
            let products = products.map(|(x, weight)| f64::from(*x) * f64::from(*weight));
            let want =
                products.sum::<f64>() + bias.as_ref().map_or(0.0, |it| f64::from(it[output]));
            let want = if relu { want.max(0.0) } else { want };
            assert!((f64::from(*found) - want).abs() < 1e-5, "{found} at {at}, {want}");
        }
        assert!(results.iter().all(|result| *result == results[0]), "levels differ");
    }

    #[test]
    fn every_level_computes_the_same_sums() {
        let mut random = SplitMix::new(5);
        for outputs in [1, 2, 15, 16, 17, 63, 64, 65, 130, 512] {
            for columns in [1, 2, 13, 63] {
                check(&mut random, 3, columns, outputs);
            }
        }
        check(&mut random, 300, 13, 40);
    }

    #[test]
    fn what_is_no_number_stays_none() {
        let biased = BiasedWeight { weight: matrix(&[1.0; 20], 1), bias: None };
        let placed = FewColumns::pack(&biased).expect("a small matrix");
        for level in CpuLevel::available() {
            let options = CpuOptions { threads: 1, level: Some(level), compute: Compute::F32 };
            let ctx = CpuCtx::new(options).expect("a level that there is");
            let mut out = [0.0; 20];
            let to = ViewMut::of(&mut out, [1, 20]);
            placed.project(&ctx, View::of(&[f32::NAN], [1, 1]), true, to);
            assert!(out.iter().all(|number| number.is_nan()), "{}: {out:?}", level.name());
        }
    }
}

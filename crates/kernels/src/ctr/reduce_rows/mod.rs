//! The sum or the mean of the vectors that a row is made of.
//!
//! x: act `[rows, count * dim]`, vectors of `dim` numbers · out: act `[rows, dim]`
//!
//! Roofline: 4 bytes and one flop per element; bound by memory bandwidth.

pub(crate) mod reference;

use terrace_device::{SharedRows, View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    Sum,
    Mean,
}

impl Reduction {
    /// What the sum of so many is multiplied by.
    fn factor(self, count: usize) -> f32 {
        match self {
            Reduction::Sum => 1.0,
            Reduction::Mean => 1.0 / count as f32,
        }
    }
}

pub(crate) fn reduce_rows(ctx: &CpuCtx, x: View<'_>, kind: Reduction, mut out: ViewMut<'_>) {
    let ([rows, width], [out_rows, dim]) = (x.dims(), out.dims());
    assert!(out_rows == rows && width.is_multiple_of(dim), "out of reduce_rows");
    let factor = kind.factor(width / dim);
    let out = SharedRows::<f32>::new(&mut out);
    // What is read counts: much less is written.
    ctx.for_rows(rows, width, &|row| {
        // SAFETY: each row is one task's.
        let out = unsafe { out.row_mut(row) };
        ctx.simd.run(Reduce { x: x.row(row), factor, out });
    });
}

struct Reduce<'a> {
    x: &'a [f32],
    factor: f32,
    out: &'a mut [f32],
}

impl Kernel for Reduce<'_> {
    fn reference(self) {
        reference::reduce(self.x, self.factor, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let Reduce { x, factor, out } = self;
        let dim = out.len();
        if dim == 1 {
            let mut sums = lanes.splat(0.0);
            for x in x.chunks(L::COUNT) {
                sums = lanes.add(sums, lanes.read(x));
            }
            out[0] = lanes.sum(sums) * factor;
            return;
        }
        for (i, out) in out.chunks_mut(L::COUNT).enumerate() {
            let columns = i * L::COUNT..i * L::COUNT + out.len();
            let mut sum = lanes.splat(0.0);
            for vector in x.chunks_exact(dim) {
                sum = lanes.add(sum, lanes.read(&vector[columns.clone()]));
            }
            lanes.write(lanes.mul(sum, lanes.splat(factor)), out);
        }
    }
}

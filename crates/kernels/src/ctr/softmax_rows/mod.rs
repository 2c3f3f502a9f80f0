//! The softmax of each row.
//!
//! x: act `[rows, dim]` · out: act or f32 `[rows, dim]`
//!
//! Roofline: 8 bytes and about 25 flops per element; bound by exponentials.

pub(crate) mod reference;

use terrace_device::{View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

pub(crate) fn softmax_rows(ctx: &CpuCtx, x: View<'_>, out: ViewMut<'_>) {
    assert_eq!(x.dims::<2>(), out.dims::<2>(), "out of softmax_rows");
    ctx.write_rows::<f32>(out, |row, out| {
        out.copy_from_slice(x.row(row));
        ctx.simd.run(Softmax { x: out, added: 0.0 });
    });
}

/// In place.
pub(crate) struct Softmax<'a> {
    pub(crate) x: &'a mut [f32],
    /// To the sum of exponentials.
    pub(crate) added: f32,
}

impl Kernel for Softmax<'_> {
    fn reference(self) {
        reference::softmax(self.x, self.added);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let largest = self.x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let (shift, mut sum) = (lanes.splat(largest), 0.0);
        let whole = self.x.len() - self.x.len() % L::COUNT;
        let (vectors, rest) = self.x.split_at_mut(whole);
        let mut sums = lanes.splat(0.0);
        for x in vectors.chunks_exact_mut(L::COUNT) {
            let power = lanes.exp(lanes.sub(lanes.read(x), shift));
            sums = lanes.add(sums, power);
            lanes.write(power, x);
        }
        if !rest.is_empty() {
            lanes.write(lanes.exp(lanes.sub(lanes.read(rest), shift)), rest);
            sum = rest.iter().sum();
        }
        let factor = lanes.splat(1.0 / (lanes.sum(sums) + sum + self.added));
        for x in self.x.chunks_mut(L::COUNT) {
            lanes.write(lanes.mul(lanes.read(x), factor), x);
        }
    }
}

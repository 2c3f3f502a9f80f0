//! The second order of a factorisation machine: half of the square of the vectors' sum less the
//! sum of their squares, which is the sum of the products of all pairs.
//!
//! x: act `[rows, count * dim]`, vectors of `dim` numbers · out: act `[rows, dim]`
//!
//! Roofline: 4 bytes and 3 flops per element; bound by memory bandwidth.

pub(crate) mod reference;

use terrace_device::{SharedRows, View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};

pub(crate) fn fm_order2(ctx: &CpuCtx, x: View<'_>, mut out: ViewMut<'_>) {
    let ([rows, width], [out_rows, dim]) = (x.dims(), out.dims());
    assert!(out_rows == rows && width.is_multiple_of(dim), "out of fm_order2");
    let out = SharedRows::<f32>::new(&mut out);
    // What is read counts: much less is written.
    ctx.for_rows(rows, width, &|row| {
        // SAFETY: each row is one task's.
        let out = unsafe { out.row_mut(row) };
        ctx.simd.run(Pairs { x: x.row(row), out });
    });
}

struct Pairs<'a> {
    x: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Pairs<'_> {
    fn reference(self) {
        reference::fm_order2(self.x, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let dim = self.out.len();
        for (i, out) in self.out.chunks_mut(L::COUNT).enumerate() {
            let columns = i * L::COUNT..i * L::COUNT + out.len();
            let (mut sum, mut squares) = (lanes.splat(0.0), lanes.splat(0.0));
            for vector in self.x.chunks_exact(dim) {
                let x = lanes.read(&vector[columns.clone()]);
                sum = lanes.add(sum, x);
                squares = lanes.mul_add(x, x, squares);
            }
            let pairs = lanes.sub(lanes.mul(sum, sum), squares);
            lanes.write(lanes.mul(pairs, lanes.splat(0.5)), out);
        }
    }
}

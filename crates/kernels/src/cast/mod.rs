//! f32 rounded to the type that pages hold.
//!
//! x: f32, out: f32, f16 (saturating) or bf16, same shape; rows of both may be strided.
//!
//! Roofline: 6 to 8 bytes per element; bound by cache bandwidth.

pub(crate) mod reference;

use half::{bf16, f16};
use terrace_device::{DType, SharedRows, View, ViewMut};

use crate::cpu_ops::CpuOps;
use crate::lanes::{Kernel, Lanes};

pub(crate) fn cast(ops: &CpuOps, x: View<'_>, mut out: ViewMut<'_>) {
    assert_eq!(x.shape(), out.shape(), "out of cast");
    let shape = x.shape();
    let rows = shape.dims()[0];
    let width = shape.dims()[1..].iter().product();
    match out.dtype() {
        DType::F32 => {
            let out = SharedRows::<f32>::new(&mut out);
            ops.for_rows(rows, width, &|row| {
                // SAFETY: each row is one task's.
                unsafe { out.row_mut(row) }.copy_from_slice(x.row(row));
            });
        }
        DType::F16 => {
            let out = SharedRows::<f16>::new(&mut out);
            ops.for_rows(rows, width, &|row| {
                // SAFETY: each row is one task's.
                let out = unsafe { out.row_mut(row) };
                ops.simd.run(ToF16 { x: x.row(row), out });
            });
        }
        DType::Bf16 => {
            let out = SharedRows::<bf16>::new(&mut out);
            ops.for_rows(rows, width, &|row| {
                // SAFETY: each row is one task's.
                let out = unsafe { out.row_mut(row) };
                ops.simd.run(ToBf16 { x: x.row(row), out });
            });
        }
        other => panic!("cast to {}", other.name()),
    }
}

struct ToF16<'a> {
    x: &'a [f32],
    out: &'a mut [f16],
}

impl Kernel for ToF16<'_> {
    fn reference(self) {
        reference::to_f16(self.x, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let (least, most) = (lanes.splat(-reference::F16_MOST), lanes.splat(reference::F16_MOST));
        for (x, out) in self.x.chunks(L::COUNT).zip(self.out.chunks_mut(L::COUNT)) {
            // In this order a NaN stays one.
            let x = lanes.min(most, lanes.max(least, lanes.read(x)));
            lanes.write_f16(x, out);
        }
    }
}

struct ToBf16<'a> {
    x: &'a [f32],
    out: &'a mut [bf16],
}

impl Kernel for ToBf16<'_> {
    #[inline(always)]
    fn reference(self) {
        reference::to_bf16(self.x, self.out);
    }

    /// The compiler makes vectors of the plain text.
    #[inline(always)]
    fn simd<L: Lanes>(self, _: L) {
        self.reference();
    }
}

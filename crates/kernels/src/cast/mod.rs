//! f32 rounded to the type that pages hold.
//!
//! x: f32, out: f32, f16 (saturating) or bf16, same shape; rows of both may be strided.
//!
//! Roofline: 6 to 8 bytes per element; bound by cache bandwidth.

pub(crate) mod reference;

use half::{bf16, f16};
use terrace_device::{DType, SharedRows, View, ViewMut};

use crate::ops::Ops;

pub(crate) fn cast(ops: &Ops, x: View<'_>, mut out: ViewMut<'_>) {
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
                reference::to_f16(x.row(row), unsafe { out.row_mut(row) });
            });
        }
        DType::Bf16 => {
            let out = SharedRows::<bf16>::new(&mut out);
            ops.for_rows(rows, width, &|row| {
                // SAFETY: each row is one task's.
                reference::to_bf16(x.row(row), unsafe { out.row_mut(row) });
            });
        }
        other => panic!("cast to {}", other.name()),
    }
}

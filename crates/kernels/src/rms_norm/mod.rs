//! Root-mean-square normalisation: `weight * x / sqrt(mean(x²) + eps)` for each row.
//!
//! x, out: f32 `[rows, dim]` or `[rows, heads, dim]` (each head is a row) · weight: f32 `[dim]`
//!
//! Roofline: 8 bytes (16 with the sum) and 4 flops per element; bound by cache bandwidth.

pub(crate) mod reference;

use terrace_device::{SharedRows, View, ViewMut};

use crate::ops::Ops;

pub(crate) fn rms_norm(ops: &Ops, x: View<'_>, weight: View<'_>, eps: f32, mut out: ViewMut<'_>) {
    assert_eq!(x.shape(), out.shape(), "out of rms_norm");
    let [dim] = weight.dims();
    let (rows, width) = rows_of(x, dim);
    let weight = weight.as_slice::<f32>();
    let out = SharedRows::<f32>::new(&mut out);
    ops.for_rows(rows, width, &|row| {
        // SAFETY: each row is one task's.
        let out = unsafe { out.row_mut(row) };
        for (x, out) in x.row::<f32>(row).chunks_exact(dim).zip(out.chunks_exact_mut(dim)) {
            reference::norm(x, weight, eps, out);
        }
    });
}

pub(crate) fn rms_norm_heads(ops: &Ops, mut x: ViewMut<'_>, weight: View<'_>, eps: f32) {
    let [dim] = weight.dims();
    let (rows, width) = rows_of(x.as_view(), dim);
    let weight = weight.as_slice::<f32>();
    let x = SharedRows::<f32>::new(&mut x);
    ops.for_rows(rows, width, &|row| {
        // SAFETY: each row is one task's.
        for head in unsafe { x.row_mut(row) }.chunks_exact_mut(dim) {
            reference::norm_in_place(head, weight, eps);
        }
    });
}

pub(crate) fn add_rms_norm(
    ops: &Ops,
    mut sum: ViewMut<'_>,
    delta: View<'_>,
    weight: View<'_>,
    eps: f32,
    mut out: ViewMut<'_>,
) {
    let [rows, dim] = sum.dims();
    assert_eq!(delta.dims(), [rows, dim], "delta of add_rms_norm");
    assert_eq!(out.dims(), [rows, dim], "out of add_rms_norm");
    assert_eq!(weight.dims(), [dim], "weight of add_rms_norm");
    let weight = weight.as_slice::<f32>();
    let sum = SharedRows::<f32>::new(&mut sum);
    let out = SharedRows::<f32>::new(&mut out);
    ops.for_rows(rows, dim, &|row| {
        // SAFETY: each row is one task's.
        let (sum, out) = unsafe { (sum.row_mut(row), out.row_mut(row)) };
        reference::add(sum, delta.row(row));
        reference::norm(sum, weight, eps, out);
    });
}

/// Outermost extent, and elements under one index of it.
fn rows_of(x: View<'_>, dim: usize) -> (usize, usize) {
    let shape = x.shape();
    let dims = shape.dims();
    assert!(matches!(dims.len(), 2 | 3), "rms_norm over shape {shape:?}");
    assert_eq!(dims.last(), Some(&dim), "weight of rms_norm");
    (dims[0], dims[1..].iter().product())
}

//! The norms of the rows of a weight and its branch together, which DoRA divides by.

use terrace_device::{SharedRows, ViewMut, WorkerPool};

use super::branch::LoraBranch;
use super::reference;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::linear::matrix::Matrix;
use crate::linear::unpack;

/// norms: f32 `[rows]`, the norm of each row of `weight + scale * b * a`. One row at a time is
/// unpacked.
/// The norms of the rows of `weight + scale * b * a`. a: `[rank, columns]` · b: `[rows, rank]`
pub fn row_norms_on_host(
    workers: &WorkerPool,
    weight: &Matrix,
    [a, b]: [&[f32]; 2],
    scale: f32,
) -> Vec<f32> {
    let (rows, columns) = (weight.rows(), weight.columns());
    let rank = b.len() / rows;
    assert_eq!([a.len(), b.len()], [rank * columns, rows * rank], "extents of a branch");
    let mut norms = vec![0.0; rows];
    let mut view = ViewMut::of(&mut norms, [rows, 1]);
    let shared = SharedRows::<f32>::new(&mut view);
    workers.run(rows, &|_, row| {
        let mut unpacked = vec![0.0; columns];
        unpack::unpack_row(weight.format(), weight.row(row), &mut unpacked);
        let b = &b[row * rank..(row + 1) * rank];
        // SAFETY: each row is one task's.
        let norm = unsafe { shared.row_mut(row) };
        norm[0] = reference::row_norm(&unpacked, b, a, scale);
    });
    norms
}

/// As [`row_norms_on_host`], of a branch in training.
pub(crate) fn branch_row_norms(
    ctx: &CpuCtx,
    weight: &Matrix,
    branch: LoraBranch<'_>,
    norms: ViewMut<'_>,
) {
    let (rows, columns, rank) = (weight.rows(), weight.columns(), branch.rank());
    assert_eq!(norms.dims(), [rows], "norms of branch_row_norms");
    assert_eq!([branch.b.rows(), branch.a.columns()], [rows, columns], "extents of a branch");
    let a = branch.a.only_matrix().rows_in_place(0..rank).expect("a branch is of f32");
    let b = branch.b.only_matrix().rows_in_place(0..rows).expect("a branch is of f32");
    let mut norms = norms.reshape([rows, 1]);
    let norms = SharedRows::<f32>::new(&mut norms);
    ctx.run_with_scratch(rows, &|scratch, row| {
        let unpacked = &mut scratch[..columns];
        unpack::unpack_row(weight.format(), weight.row(row), unpacked);
        let b = &b[row * rank..(row + 1) * rank];
        // SAFETY: each row is one task's.
        let norm = unsafe { norms.row_mut(row) };
        norm[0] = reference::row_norm(unpacked, b, a, branch.scale);
    });
}

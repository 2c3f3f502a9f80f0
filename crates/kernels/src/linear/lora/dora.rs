//! The norms of the rows of a weight and its branch together, which DoRA divides by.

use terrace_device::{SharedRows, ViewMut};

use super::branch::LoraBranch;
use super::reference;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::linear::matrix::Matrix;
use crate::linear::unpack;

/// norms: f32 `[rows]`, the norm of each row of `weight + scale * b * a`. One row at a time is
/// unpacked.
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

//! A branch as a part of its product's weight.

use std::sync::{Arc, Mutex, PoisonError};

use half::{bf16, f16};
use terrace_device::{Buffer, WorkerPool};
use terrace_kernels::{Matrix, WeightFormat, unpack_row};

use super::adapter_branch::{AdapterBranch, BranchVector};
use crate::error::Error;

/// Rows of a task.
const TASK_ROWS: usize = 16;

/// Whether [`merge`] can take this branch into weights of this format: plain numbers that are
/// summed, not blocks, whose rounding would take the branch with it, and no norm in between.
pub fn merges_into(branch: &AdapterBranch, format: WeightFormat) -> bool {
    let is_plain = matches!(format, WeightFormat::F32 | WeightFormat::F16 | WeightFormat::Bf16);
    is_plain && !matches!(branch.vector, BranchVector::Norm(_))
}

/// `weight + scale b a`, with DoRA each row at its length, in the weight's own format. `None` where
/// a number of it is none, or too large for the format.
pub fn merge(
    weight: &Matrix,
    branch: &AdapterBranch,
    workers: &WorkerPool,
) -> Result<Option<Matrix>, Error> {
    let (format, rows, columns) = (weight.format(), weight.rows(), weight.columns());
    let row_bytes = format.row_bytes(columns).expect("plain numbers fill any row");
    let mut buffer = Buffer::zeroed(rows * row_bytes, "weights with an adapter")?;
    let tasks: Vec<_> =
        buffer.bytes_mut().chunks_mut(TASK_ROWS * row_bytes).map(Mutex::new).collect();
    let is_finite = Mutex::new(true);
    workers.run(tasks.len(), &|_, task| {
        let mut sum = vec![0.0; columns];
        let mut out = tasks[task].lock().unwrap_or_else(PoisonError::into_inner);
        for (i, out) in out.chunks_exact_mut(row_bytes).enumerate() {
            let row = task * TASK_ROWS + i;
            unpack_row(format, weight.row(row), &mut sum);
            add_row(branch, row, &mut sum);
            if !narrow(format, &sum, out) {
                *is_finite.lock().unwrap_or_else(PoisonError::into_inner) = false;
            }
        }
    });
    drop(tasks);
    let is_finite = is_finite.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(is_finite.then(|| Matrix::new(format, rows, columns, Arc::new(buffer))))
}

/// sum: a row of the weight, `[columns]`
fn add_row(branch: &AdapterBranch, row: usize, sum: &mut [f32]) {
    let (rank, scale) = (branch.rank, branch.scale());
    let mut added = vec![0.0; sum.len()];
    for (b, a) in branch.b[row * rank..][..rank].iter().zip(branch.a.chunks_exact(sum.len())) {
        added.iter_mut().zip(a).for_each(|(added, a)| *added += b * a);
    }
    sum.iter_mut().zip(added).for_each(|(sum, added)| *sum += scale * added);
    if let BranchVector::Lengths(lengths) = &branch.vector {
        let squares: f64 = sum.iter().map(|x| f64::from(*x).powi(2)).sum();
        let factor = lengths[row] / squares.sqrt() as f32;
        sum.iter_mut().for_each(|x| *x *= factor);
    }
}

/// Whether all numbers are finite in the format.
fn narrow(format: WeightFormat, numbers: &[f32], out: &mut [u8]) -> bool {
    fn each<const N: usize>(
        numbers: &[f32],
        out: &mut [u8],
        bytes: impl Fn(f32) -> ([u8; N], bool),
    ) -> bool {
        let pairs = numbers.iter().zip(out.as_chunks_mut().0);
        pairs.fold(true, |all, (number, out)| {
            let (bytes, is_finite) = bytes(*number);
            *out = bytes;
            all && is_finite
        })
    }
    match format {
        WeightFormat::F32 => each(numbers, out, |x| (x.to_le_bytes(), x.is_finite())),
        WeightFormat::F16 => each(numbers, out, |x| {
            let x = f16::from_f32(x);
            (x.to_le_bytes(), x.is_finite())
        }),
        WeightFormat::Bf16 => each(numbers, out, |x| {
            let x = bf16::from_f32(x);
            (x.to_le_bytes(), x.is_finite())
        }),
        block => panic!("a branch does not go into {}", block.name()),
    }
}

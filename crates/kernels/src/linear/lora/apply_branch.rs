//! What a branch that is served makes of its product's output, where that lies.

use terrace_device::{SharedRows, View, ViewMut};

use super::branch::LoraBranch;
use super::reference;
use crate::cpu::cpu_ctx::{CpuCtx, SCRATCH_FLOATS};
use crate::linear::matmul::project_stacked;
use crate::linear::vector::Vector;

/// How a branch changes the output of its product. Vectors have a number for each output.
#[derive(Clone, Copy)]
pub enum BranchForm<'a> {
    /// It is added.
    Added,
    /// Its root-mean-square norm is added.
    Normed { weight: &'a Vector, eps: f32 },
    /// It is added to a product without its bias, then each output gets its factor, then the bias.
    Scaled { factors: &'a Vector, bias: Option<&'a Vector> },
}

pub struct BranchArgs<'a> {
    /// f32 `[tokens, columns]`
    pub x: View<'a>,
    pub branch: LoraBranch<'a>,
    pub form: BranchForm<'a>,
    /// f32 `[tokens, rank]`: memory to work in.
    pub inner: ViewMut<'a>,
    /// f32 `[tokens, rows]`, the product's; rows may be strided.
    pub out: ViewMut<'a>,
}

/// Outputs of a task: few enough that a single token's are shared among threads.
const BLOCK_ROWS: usize = 512;

pub(crate) fn apply_branch(ctx: &CpuCtx, args: BranchArgs<'_>) {
    let BranchArgs { x, branch, form, mut inner, mut out } = args;
    let ([tokens, columns], [out_tokens, rows]) = (x.dims(), out.dims());
    assert_eq!(out_tokens, tokens, "out of a branch");
    branch.check(tokens, columns, rows, inner.as_view());
    project_stacked(ctx, x, branch.a.storage().weights(), inner.reborrow());
    let b = branch.b.only_matrix().rows_in_place(0..rows).expect("a branch is of f32");
    let (inner, rank, scale) = (inner.as_view(), branch.rank(), branch.scale);
    let out = SharedRows::<f32>::new(&mut out);
    if let BranchForm::Normed { weight, eps } = form {
        assert!(rows <= SCRATCH_FLOATS, "a norm over {rows} outputs of at most {SCRATCH_FLOATS}");
        let weight = numbers(weight, rows);
        ctx.run_with_scratch(tokens, &|scratch, token| {
            let added = &mut scratch[..rows];
            added.fill(0.0);
            reference::add_product(inner.row(token), b, scale, added);
            // SAFETY: each row is one task's.
            reference::add_norm(added, weight, eps, unsafe { out.row_mut(token) });
        });
        return;
    }
    let scaling = match form {
        BranchForm::Scaled { factors, bias } => {
            Some((numbers(factors, rows), bias.map(|bias| numbers(bias, rows))))
        }
        _ => None,
    };
    let blocks = rows.div_ceil(BLOCK_ROWS);
    ctx.for_rows(tokens * blocks, BLOCK_ROWS.min(rows) * rank, &|task| {
        let (token, start) = (task / blocks, task % blocks * BLOCK_ROWS);
        let block = start..rows.min(start + BLOCK_ROWS);
        // SAFETY: each block of a row is one task's.
        let out = unsafe { out.part_mut(token, block.clone()) };
        let b = &b[block.start * rank..block.end * rank];
        reference::add_product(inner.row(token), b, scale, out);
        if let Some((factors, bias)) = scaling {
            reference::scale(&factors[block.clone()], bias.map(|bias| &bias[block]), out);
        }
    });
}

fn numbers(vector: &Vector, rows: usize) -> &[f32] {
    let numbers = vector.view().as_slice();
    assert_eq!(numbers.len(), rows, "numbers of a branch's outputs");
    numbers
}

//! `out = x * weight^T + bias` on the CPU: a call is cut into blocks of rows, which are tasks.

use std::ops::Range;

use terrace_device::{SharedRows, View};

use super::block::{BLOCK_FLOATS, Block, MAX_BLOCK_ROWS, MIN_BLOCK_ROWS};
use super::projection::Projection;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::ctr::activation::CtrActivation;

/// Tokens that are worth reading a block of weights for once more.
const MIN_TASK_TOKENS: usize = 64;

#[expect(clippy::needless_pass_by_ref_mut, reason = "tasks write parts of the outputs")]
pub(crate) fn project(
    ctx: &CpuCtx,
    x: View<'_>,
    parts: &mut [Projection<'_>],
    activation: Option<CtrActivation>,
) {
    let [tokens, columns] = x.dims();
    if tokens == 0 {
        return;
    }
    assert!(columns <= CpuCtx::MAX_COLUMNS, "{columns} columns of at most {}", CpuCtx::MAX_COLUMNS);
    for part in parts.iter() {
        let rows = part.weight.rows();
        assert_eq!(part.weight.columns(), columns, "columns of weight");
        assert_eq!(part.out.dims(), [tokens, rows], "out of project");
        assert!(part.bias.is_none_or(|bias| bias.dims() == [rows]), "bias of project");
    }
    let parts = &*parts;
    let rows = parts.iter().map(|part| part.weight.rows()).sum();
    let block_rows = block_rows(columns, rows, ctx.threads());
    let blocks = parts.iter().map(|part| part.weight.rows().div_ceil(block_rows)).sum();
    let task_tokens = task_tokens(tokens, blocks, ctx.threads());
    let runs = tokens.div_ceil(task_tokens);
    ctx.run_with_scratch(blocks * runs, &|scratch, task| {
        let (part, rows) = locate(parts, block_rows, task / runs);
        let first = task % runs * task_tokens;
        let tokens = first..tokens.min(first + task_tokens);
        // SAFETY: `parts` was borrowed exclusively, and each block of columns of a run of tokens is
        // one task's.
        let out = unsafe { SharedRows::of_shared(&part.out) };
        let bias = part.bias.map(|bias| &bias.as_slice::<f32>()[rows.clone()]);
        let weight = part.weight;
        ctx.simd.run(Block { x, tokens, weight, rows, bias, activation, out, scratch });
    });
}

/// Tokens of a task: all, unless there are fewer blocks than keep all threads busy.
fn task_tokens(tokens: usize, blocks: usize, threads: usize) -> usize {
    let wanted = if threads == 1 { 1 } else { (4 * threads).div_ceil(blocks.max(1)) };
    tokens.div_ceil(wanted.min(tokens / MIN_TASK_TOKENS).max(1))
}

/// Small enough that every thread gets several blocks, large enough to be worth claiming.
fn block_rows(columns: usize, rows: usize, threads: usize) -> usize {
    let cached = (BLOCK_FLOATS / columns.max(1)).clamp(MIN_BLOCK_ROWS, MAX_BLOCK_ROWS);
    let fair = rows.div_ceil(4 * threads);
    cached.min(fair).next_multiple_of(MIN_BLOCK_ROWS)
}

/// The part that block `block` of all parts falls into, and its rows there.
fn locate<'a, 'v>(
    parts: &'a [Projection<'v>],
    block_rows: usize,
    mut block: usize,
) -> (&'a Projection<'v>, Range<usize>) {
    for part in parts {
        let rows = part.weight.rows();
        let blocks = rows.div_ceil(block_rows);
        if block < blocks {
            let start = block * block_rows;
            return (part, start..rows.min(start + block_rows));
        }
        block -= blocks;
    }
    unreachable!("blocks were counted over the same parts")
}

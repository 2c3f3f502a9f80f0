//! Attention over replayed slots and its gradients in products of bf16, on the matrix units where
//! there are any. Sums, shares and the gradients of scores are f32.
//!
//! A task has rows of its own, queries of one head or slots of one kv head, as tiles. It meets the
//! others block by block, as panels that it makes of them: 32 rows with 32 of the others at a time,
//! so that a score is in cache from its product to the next one.
//!
//! Roofline: 4 flops per query, slot and number of a head forward and 14 backward, on the matrix
//! units; but an exponential for each score forward and two backward, 12 cycles for sixteen of
//! them, take longer where heads have 64 numbers. What no query of 32 sees is passed over.

mod add_sums;
mod attend;
mod d_query;
mod d_slots;
mod pack;
mod query_lanes;
mod query_run;
mod query_task;
mod score_gradients;
mod scratch;
mod slot_positions;
mod softmax;

pub(super) use attend::attend;
pub(super) use d_query::d_query;
pub(super) use d_slots::d_slots;

use super::args::ReplayQueries;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::cpu_options::Compute;

/// Rows of a task, at most.
const OWN_ROWS_MOST: usize = 512;
/// Rows of a block that they meet, at most.
const MET_ROWS_MOST: usize = 256;
/// Numbers of either, in whole tiles: heads wider than 64 have blocks of fewer rows.
const BLOCK_NUMBERS: usize = 1 << 16;
/// A chunk of fewer queries is sooner computed than packed.
const LEAST_QUERIES: usize = 16;

/// Whether a chunk is computed here.
pub(super) fn takes(ctx: &CpuCtx, queries: &ReplayQueries<'_>) -> bool {
    ctx.compute() == Compute::Fast && LEAST_QUERIES <= queries.at.tokens
}

fn own_rows(dim: usize) -> usize {
    block_rows(dim).min(OWN_ROWS_MOST)
}

fn met_rows(dim: usize) -> usize {
    block_rows(dim).min(MET_ROWS_MOST)
}

/// A multiple of 32.
fn block_rows(dim: usize) -> usize {
    BLOCK_NUMBERS / dim.next_multiple_of(32) / 32 * 32
}

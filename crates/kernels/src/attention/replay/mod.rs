//! Attention over slots as a replay gives them, and its gradients.
//!
//! One layer of a batch of equally long sequences, chunk by chunk. A chunk's keys and values take
//! the slots that the replay log has for them ([`place_rows`]); what lay there is kept aside, so
//! that [`take_back_rows`] can restore the slots as they were before. Between the two the chunk's
//! queries attend over all filled slots ([`attend`]); a query sees the positions up to its own.
//!
//! The gradient walks the same way backwards. It needs the slots as they were at each chunk, and
//! has them from those after the last one, by taking chunk after chunk back: no chunk has slots of
//! its own. The gradients of keys and values lie in slots too. When a chunk is taken back, those in
//! its slots are its rows' own, and what lay there before begins again with none.
//!
//! query, out, d_query, d_out: f32 `[seqs * row_tokens, heads * dim]` · keys and values of tokens:
//! f32 `[seqs * row_tokens, kv_heads * dim]` · of slots: f32 `[seqs * kv_heads, slots, dim]` ·
//! positions: i32 `[seqs * kv_heads, slots]`, negative for none · log_sums: f32
//! `[seqs * row_tokens, heads]`
//!
//! With [`Compute::Fast`](crate::Compute::Fast) chunks of some queries round both sides of products
//! to bf16 ([`rounded`]).
//!
//! Roofline: 4 flops per query, slot and number of a head forward, 14 backward (10 and the scores
//! once more, for those of queries and of slots are summed by different tasks); bound by
//! multiplication from a few queries on.

mod args;
mod attend;
mod cuda;
mod d_query;
mod d_slots;
mod gather_slots;
mod head_rows;
mod limits;
mod place_rows;
pub(crate) mod reference;
mod rounded;
mod visible;
mod weight_sums;

pub use args::{ChunkAt, KeptRows, ReplayGradients, ReplayQueries, ReplaySlots, RowGradients};
pub(crate) use attend::attend;
pub(crate) use cuda::ReplayKernels;
pub(crate) use gather_slots::gather_slots;
pub(crate) use limits::SLOTS_MOST;
pub(crate) use place_rows::{place_rows, take_back_rows};
pub(crate) use weight_sums::weight_sums;

use crate::cpu::cpu_ctx::CpuCtx;

/// `d_query` of the chunk is written, gradients of slots are added to.
pub(crate) fn attend_gradients(ctx: &CpuCtx, mut args: ReplayGradients<'_>) {
    args.check();
    if rounded::takes(ctx, &args.queries) {
        rounded::d_query(ctx, &mut args);
        rounded::d_slots(ctx, &mut args);
    } else {
        d_query::d_query(ctx, &mut args);
        d_slots::d_slots(ctx, &mut args);
    }
}

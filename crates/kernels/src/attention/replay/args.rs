//! What attention over replayed slots is given.

use std::ops::Range;

use terrace_device::{View, ViewMut};

use super::limits::SLOTS_MOST;
use crate::cpu::cpu_ctx::CpuCtx;

/// Which rows of a batch's arrays are a chunk's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkAt {
    pub seqs: usize,
    /// Tokens of each sequence that the arrays have.
    pub row_tokens: usize,
    /// The chunk's first token among them.
    pub first: usize,
    pub tokens: usize,
    /// Where that token is in its sequence.
    pub position: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub dim: usize,
}

impl ChunkAt {
    /// The array's row of a token of a sequence's chunk.
    pub(super) fn row(&self, seq: usize, token: usize) -> usize {
        seq * self.row_tokens + self.first + token
    }

    pub(super) fn group_heads(&self) -> usize {
        self.heads / self.kv_heads
    }

    pub(super) fn columns(&self, head: usize) -> Range<usize> {
        head * self.dim..(head + 1) * self.dim
    }

    #[track_caller]
    pub(super) fn check(&self) {
        assert!(self.heads.is_multiple_of(self.kv_heads), "heads that share {}", self.kv_heads);
        assert!(self.first + self.tokens <= self.row_tokens, "{self:?}");
        assert!(self.dim <= CpuCtx::MAX_HEAD_DIM, "heads of {} numbers", self.dim);
    }

    #[track_caller]
    pub(super) fn check_rows(&self, view: View<'_>, heads: usize, what: &str) {
        let wanted = [self.seqs * self.row_tokens, heads * self.dim];
        assert_eq!(view.dims(), wanted, "{what} of a chunk");
    }
}

/// One layer's slots, of which the first `filled` of every head hold tokens.
#[derive(Clone, Copy)]
pub struct ReplaySlots<'a> {
    pub keys: View<'a>,
    pub values: View<'a>,
    pub positions: View<'a>,
    pub filled: usize,
}

impl ReplaySlots<'_> {
    #[track_caller]
    pub(super) fn check(&self, at: &ChunkAt) {
        let [rows, slots, dim] = self.keys.dims();
        assert_eq!([rows, dim], [at.seqs * at.kv_heads, at.dim], "keys of slots");
        assert_eq!(self.values.dims(), [rows, slots, dim], "values of slots");
        assert_eq!(self.positions.dims(), [rows, slots], "positions of slots");
        assert!(self.filled <= slots, "{} filled of {slots} slots", self.filled);
        assert!(self.filled <= SLOTS_MOST, "{} slots of at most {SLOTS_MOST}", self.filled);
    }
}

/// A chunk's queries and the slots that they see.
#[derive(Clone, Copy)]
pub struct ReplayQueries<'a> {
    pub at: ChunkAt,
    pub query: View<'a>,
    pub slots: ReplaySlots<'a>,
    pub scale: f32,
    /// Keys this many positions back and further are not seen.
    pub window: Option<usize>,
}

impl ReplayQueries<'_> {
    #[track_caller]
    pub(super) fn check(&self) {
        self.at.check();
        self.at.check_rows(self.query, self.at.heads, "query");
        self.slots.check(&self.at);
    }
}

/// What lay in a chunk's slots before: f32 `[seqs * kv_heads, tokens, dim]`, i32 `[seqs *
/// kv_heads, tokens]`.
pub struct KeptRows<'a> {
    pub keys: ViewMut<'a>,
    pub values: ViewMut<'a>,
    pub positions: ViewMut<'a>,
}

/// Gradients in slots, f32 `[seqs * kv_heads, slots, dim]`, and of the tokens' rows that they
/// become: f32 `[seqs * row_tokens, kv_heads * dim]`.
pub struct RowGradients<'a> {
    pub slot_keys: ViewMut<'a>,
    pub slot_values: ViewMut<'a>,
    pub keys: ViewMut<'a>,
    pub values: ViewMut<'a>,
}

pub struct ReplayGradients<'a> {
    pub queries: ReplayQueries<'a>,
    /// As the forward op left them, with `log_sums`.
    pub out: View<'a>,
    pub log_sums: View<'a>,
    pub d_out: View<'a>,
    pub d_query: ViewMut<'a>,
    /// f32 `[seqs * kv_heads, slots, dim]`
    pub d_keys: ViewMut<'a>,
    pub d_values: ViewMut<'a>,
}

impl ReplayGradients<'_> {
    #[track_caller]
    pub(super) fn check(&self) {
        let ReplayQueries { at, slots, .. } = self.queries;
        self.queries.check();
        for (view, what) in [(self.out, "out"), (self.d_out, "d_out")] {
            at.check_rows(view, at.heads, what);
        }
        at.check_rows(self.d_query.as_view(), at.heads, "d_query");
        assert_eq!(self.log_sums.dims(), [at.seqs * at.row_tokens, at.heads], "log_sums");
        assert_eq!(self.d_keys.dims::<3>(), slots.keys.dims(), "d_keys of slots");
        assert_eq!(self.d_values.dims::<3>(), slots.keys.dims(), "d_values of slots");
    }
}

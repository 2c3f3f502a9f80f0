//! How the live rows of a step are cut into tiles.

use std::ops::Range;

use super::attention_args::AttentionArgs;
use crate::cpu::cpu_ctx::{CpuCtx, SCRATCH_FLOATS};
use crate::linear::row_kinds::RowKinds;

/// Queries of a tile: enough that fetching a block of keys is a few percent of the work.
const TILE_QUERIES: usize = 64;

/// Tiles of each sequence: those of its prompt's rows, if they are computed by themselves, and then
/// those of its other rows.
pub(super) struct Cuts<'a> {
    live_starts: &'a [i32],
    row_kinds: RowKinds<'a>,
    /// Query heads of a kv head.
    pub(super) group: usize,
    /// Tokens of a tile on the matrix units.
    prompt_tokens: Option<usize>,
    tile_tokens: usize,
}

/// Some live rows of one sequence.
pub(super) struct Cut {
    pub(super) tokens: Range<usize>,
    pub(super) of_prompt: bool,
}

impl<'a> Cuts<'a> {
    pub(super) fn new(ctx: &CpuCtx, args: &AttentionArgs<'a>) -> Self {
        let [_, heads, key_dim] = args.q.dims();
        let group = heads / args.kv.layout.kv_heads;
        Cuts {
            live_starts: args.kv.live_starts.as_slice(),
            row_kinds: args.row_kinds,
            group,
            prompt_tokens: prompt_tokens(ctx, group, key_dim, args.kv.layout.value_dim),
            tile_tokens: (TILE_QUERIES / group).max(1),
        }
    }

    pub(super) fn tiles_of(&self, seq: usize) -> usize {
        let (prompt, others) = self.rows_of(seq);
        self.prompt_tiles(&prompt) + others.len().div_ceil(self.tile_tokens)
    }

    pub(super) fn tile(&self, seq: usize, tile: usize) -> Cut {
        let (prompt, others) = self.rows_of(seq);
        let prompt_tiles = self.prompt_tiles(&prompt);
        let of_prompt = tile < prompt_tiles;
        let (rows, tokens, tile) = match self.prompt_tokens.filter(|_| of_prompt) {
            Some(tokens) => (prompt, tokens, tile),
            None => (others, self.tile_tokens, tile - prompt_tiles),
        };
        let start = rows.start + tile * tokens;
        Cut { tokens: start..rows.end.min(start + tokens), of_prompt }
    }

    fn prompt_tiles(&self, prompt: &Range<usize>) -> usize {
        self.prompt_tokens.map_or(0, |tokens| prompt.len().div_ceil(tokens))
    }

    /// A sequence's live rows: its prompt's that are computed by themselves, and the others.
    fn rows_of(&self, seq: usize) -> (Range<usize>, Range<usize>) {
        let [start, end] = [seq, seq + 1].map(|i| self.live_starts[i] as usize);
        let prompt = match self.prompt_tokens {
            Some(_) => self.row_kinds.prompt_rows_in(start..end),
            None => 0,
        };
        (start..start + prompt, start + prompt..end)
    }
}

/// Tokens whose queries make a tile on the matrix units; `None` when they are not used.
#[cfg(target_arch = "x86_64")]
fn prompt_tokens(ctx: &CpuCtx, group: usize, key_dim: usize, value_dim: usize) -> Option<usize> {
    use crate::attention::blocks::{PROMPT_TILE_QUERIES, prompt_floats};
    let fits = |queries| prompt_floats(queries, key_dim, value_dim) <= SCRATCH_FLOATS;
    let most = (PROMPT_TILE_QUERIES / group).max(1);
    (1..=most).rev().find(|tokens| fits(tokens * group)).filter(|_| ctx.has_prompt_tiles())
}

#[cfg(not(target_arch = "x86_64"))]
fn prompt_tokens(_: &CpuCtx, _: usize, _: usize, _: usize) -> Option<usize> {
    None
}

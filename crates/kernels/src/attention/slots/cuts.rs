//! How a sequence's live rows are cut into cuts.
//!
//! Rows of its prompt go through the matrix units where there are any, the others through vectors:
//! which of the two is a fact about the row. Parts follow from the sequence alone.

use std::ops::Range;

use super::work::TILE_QUERIES;
use crate::cpu::cpu_ctx::CpuCtx;

/// Tokens whose queries make a cut.
#[derive(Clone, Copy)]
pub(super) struct CutSizes {
    /// On the matrix units; `None` when they are not used.
    prompt_tokens: Option<usize>,
    /// Query heads of a kv head.
    group: usize,
}

/// The cuts of a sequence, those of its prompt first.
pub(super) struct Cuts {
    prompt: Alike,
    others: Alike,
}

/// Rows that are computed alike, in cuts of so many.
struct Alike {
    rows: Range<usize>,
    cut_rows: usize,
}

/// Some live rows of one sequence.
pub(super) struct Cut {
    pub(super) rows: Range<usize>,
    pub(super) of_prompt: bool,
}

impl CutSizes {
    pub(super) fn new(ctx: &CpuCtx, group: usize) -> Self {
        CutSizes { prompt_tokens: prompt_tokens(ctx, group), group }
    }

    /// `live` rows begin with the `prompt`'s. With `most_cuts` their weights are wanted, in memory
    /// for so many cuts.
    pub(super) fn cut(&self, live: Range<usize>, prompt: usize, most_cuts: Option<usize>) -> Cuts {
        let mut prompt = if self.prompt_tokens.is_some() { prompt } else { 0 };
        // Weights are summed over a policy's chunk, and those end where the prompt does.
        if most_cuts.is_some() && prompt < live.len() {
            prompt = 0;
        }
        let (prompt, others) = (live.start..live.start + prompt, live.start + prompt..live.end);
        let most_cuts = most_cuts.unwrap_or(usize::MAX);
        let prompt_cuts = prompt.len().div_ceil(self.prompt_tokens.unwrap_or(1));
        let other_cuts = (others.len() * self.group).div_ceil(TILE_QUERIES);
        Cuts {
            prompt: Alike::new(prompt, prompt_cuts.min(most_cuts)),
            others: Alike::new(others, other_cuts.min(most_cuts)),
        }
    }
}

impl Cuts {
    pub(super) fn cuts(&self) -> usize {
        self.prompt.cuts() + self.others.cuts()
    }

    pub(super) fn cut(&self, cut: usize) -> Cut {
        let of_prompt = cut < self.prompt.cuts();
        let rows = match of_prompt {
            true => self.prompt.cut(cut),
            false => self.others.cut(cut - self.prompt.cuts()),
        };
        Cut { rows, of_prompt }
    }
}

impl Alike {
    fn new(rows: Range<usize>, cuts: usize) -> Self {
        let cut_rows = rows.len().div_ceil(cuts.max(1)).max(1);
        Alike { rows, cut_rows }
    }

    fn cuts(&self) -> usize {
        self.rows.len().div_ceil(self.cut_rows)
    }

    fn cut(&self, cut: usize) -> Range<usize> {
        let start = self.rows.start + cut * self.cut_rows;
        start..self.rows.end.min(start + self.cut_rows)
    }
}

#[cfg(target_arch = "x86_64")]
fn prompt_tokens(ctx: &CpuCtx, group: usize) -> Option<usize> {
    let tokens = (crate::attention::blocks::PROMPT_TILE_QUERIES / group).max(1);
    ctx.has_prompt_tiles().then_some(tokens)
}

#[cfg(not(target_arch = "x86_64"))]
fn prompt_tokens(_: &CpuCtx, _: usize) -> Option<usize> {
    None
}

//! How a sequence's live rows are cut into parts.
//!
//! Rows of its prompt go through the matrix units where there are any, the others through vectors:
//! which of the two is a fact about the row. Parts follow from the sequence alone.

use std::ops::Range;

use super::work::TILE_QUERIES;
use crate::cpu::cpu_ctx::CpuCtx;

/// Tokens whose queries make a part.
#[derive(Clone, Copy)]
pub(super) struct PartSizes {
    /// On the matrix units; `None` when they are not used.
    prompt_tokens: Option<usize>,
    /// Query heads of a kv head.
    group: usize,
}

/// The parts of a sequence, those of its prompt first.
pub(super) struct Cuts {
    prompt: Alike,
    others: Alike,
}

/// Rows that are computed alike, in parts of so many.
struct Alike {
    rows: Range<usize>,
    part_rows: usize,
}

/// Some live rows of one sequence.
pub(super) struct Cut {
    pub(super) rows: Range<usize>,
    pub(super) of_prompt: bool,
}

impl PartSizes {
    pub(super) fn new(ctx: &CpuCtx, group: usize) -> Self {
        PartSizes { prompt_tokens: prompt_tokens(ctx, group), group }
    }

    /// `live` rows begin with the `prompt`'s. With `most_parts` their weights are wanted, in memory
    /// for so many parts.
    pub(super) fn cut(&self, live: Range<usize>, prompt: usize, most_parts: Option<usize>) -> Cuts {
        let mut prompt = if self.prompt_tokens.is_some() { prompt } else { 0 };
        // Weights are summed over a policy's chunk, and those end where the prompt does.
        if most_parts.is_some() && prompt < live.len() {
            prompt = 0;
        }
        let (prompt, others) = (live.start..live.start + prompt, live.start + prompt..live.end);
        let most_parts = most_parts.unwrap_or(usize::MAX);
        let prompt_parts = prompt.len().div_ceil(self.prompt_tokens.unwrap_or(1));
        let other_parts = (others.len() * self.group).div_ceil(TILE_QUERIES);
        Cuts {
            prompt: Alike::new(prompt, prompt_parts.min(most_parts)),
            others: Alike::new(others, other_parts.min(most_parts)),
        }
    }
}

impl Cuts {
    pub(super) fn parts(&self) -> usize {
        self.prompt.parts() + self.others.parts()
    }

    pub(super) fn part(&self, part: usize) -> Cut {
        let of_prompt = part < self.prompt.parts();
        let rows = match of_prompt {
            true => self.prompt.part(part),
            false => self.others.part(part - self.prompt.parts()),
        };
        Cut { rows, of_prompt }
    }
}

impl Alike {
    fn new(rows: Range<usize>, parts: usize) -> Self {
        let part_rows = rows.len().div_ceil(parts.max(1)).max(1);
        Alike { rows, part_rows }
    }

    fn parts(&self) -> usize {
        self.rows.len().div_ceil(self.part_rows)
    }

    fn part(&self, part: usize) -> Range<usize> {
        let start = self.rows.start + part * self.part_rows;
        start..self.rows.end.min(start + self.part_rows)
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

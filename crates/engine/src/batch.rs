//! A plan as the flat arrays a step computes with.
//!
//! The arrays are made once for the largest step and refilled for each; filling decides nothing.

use terrace_cache::BlockTable;
use terrace_device::View;
use terrace_kernels::{CHUNK_TILE_TOKENS, PageLayout, PagedKv, RowOrigins};
use terrace_model::TokenRows;

use crate::plan::{Chunk, ChunkInput, StepPlan};
use crate::sequence::{SeqId, Sequence, Sequences};

pub(crate) struct Batch {
    ids: Vec<i32>,
    positions: Vec<i32>,
    row_seqs: Vec<i32>,
    prompt_rows: Vec<u32>,
    generated_rows: Vec<u32>,
    wanted: Vec<i32>,
    uses: Vec<RowUse>,
    live_starts: Vec<i32>,
    past_tokens: Vec<i32>,
    groups: Vec<GroupTables>,
}

/// What the logits of a wanted row are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowUse {
    /// Which of the plan's chunks the row is in.
    pub chunk: usize,
    pub kind: RowKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// Report the probability of the prompt's token at this position.
    Prompt { next: usize },
    /// Choose the next token of each of the sequence's answers.
    Sample,
}

/// Where the sequences of a step have their pages in one kv group.
struct GroupTables {
    block_tables: Vec<i32>,
    commit_slots: Vec<i32>,
}

/// Bounds of the largest step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchShape {
    pub tokens: usize,
    pub seqs: usize,
    /// Pages of the longest sequence.
    pub seq_pages: usize,
    pub groups: usize,
}

impl Batch {
    pub fn new(shape: BatchShape) -> Self {
        let BatchShape { tokens, seqs, seq_pages, groups } = shape;
        let group = || GroupTables {
            block_tables: Vec::with_capacity(seqs * seq_pages),
            commit_slots: Vec::with_capacity(tokens),
        };
        Batch {
            ids: Vec::with_capacity(tokens),
            positions: Vec::with_capacity(tokens),
            row_seqs: Vec::with_capacity(tokens),
            prompt_rows: Vec::with_capacity(tokens),
            generated_rows: Vec::with_capacity(tokens),
            wanted: Vec::with_capacity(tokens),
            uses: Vec::with_capacity(tokens),
            live_starts: Vec::with_capacity(seqs + 1),
            past_tokens: Vec::with_capacity(seqs),
            groups: (0..groups).map(|_| group()).collect(),
        }
    }

    /// `sampled_row` says which row of the step before sampled a sequence's input; only asked for
    /// chunks whose input is [`ChunkInput::SampledBefore`].
    pub fn fill(
        &mut self,
        plan: &StepPlan,
        seqs: &Sequences,
        sampled_row: impl Fn(SeqId) -> usize,
    ) {
        self.clear();
        for (index, chunk) in plan.chunks.iter().enumerate() {
            let seq = &seqs[chunk.seq];
            self.live_starts.push(as_i32(self.ids.len()));
            self.past_tokens.push(as_i32(chunk.start));
            self.want_rows(index, chunk, seq);
            for position in chunk.start..chunk.end() {
                let of_its_origin = match position < seq.prompt_len() {
                    true => &mut self.prompt_rows,
                    false => &mut self.generated_rows,
                };
                of_its_origin.push(self.ids.len() as u32);
                self.ids.push(match chunk.input {
                    ChunkInput::Known => seq.tokens()[position] as i32,
                    // Below zero: to be looked up on the device.
                    ChunkInput::SampledBefore => -1 - as_i32(sampled_row(chunk.seq)),
                });
                self.positions.push(as_i32(position));
                self.row_seqs.push(as_i32(index));
            }
        }
        self.live_starts.push(as_i32(self.ids.len()));
        for (index, group) in self.groups.iter_mut().enumerate() {
            group.fill(plan, |chunk| &seqs[chunk.seq].tables()[index]);
        }
    }

    pub fn rows(&self) -> TokenRows<'_> {
        TokenRows {
            ids: vector(&self.ids),
            sampled: None,
            positions: vector(&self.positions),
            origins: RowOrigins::Listed {
                prompt: &self.prompt_rows,
                generated: &self.generated_rows,
            },
            wanted: vector(&self.wanted),
        }
    }

    pub fn ids(&self) -> &[i32] {
        &self.ids
    }

    pub fn positions(&self) -> &[i32] {
        &self.positions
    }

    /// Which sequence each row belongs to.
    pub fn row_seqs(&self) -> &[i32] {
        &self.row_seqs
    }

    pub fn wanted(&self) -> &[i32] {
        &self.wanted
    }

    pub fn past_tokens(&self) -> &[i32] {
        &self.past_tokens
    }

    pub fn live_starts(&self) -> &[i32] {
        &self.live_starts
    }

    pub fn commit_slots(&self, group: usize) -> &[i32] {
        &self.groups[group].commit_slots
    }

    /// All block tables one after the other, and the width of each.
    pub fn block_tables(&self, group: usize) -> (&[i32], usize) {
        let tables = &self.groups[group].block_tables;
        (tables, tables.len() / self.past_tokens.len())
    }

    /// How many sequences have one row, before the first that has more.
    pub fn singles(&self) -> usize {
        self.live_starts.windows(2).take_while(|pair| pair[1] - pair[0] == 1).count()
    }

    /// The other sequences cut into tiles: each one's sequence, and its first row there. Later
    /// tiles see more keys and come first, so that no long one is left for the end.
    pub fn tiles(&self) -> Vec<i32> {
        let mut tiles = Vec::new();
        for (seq, pair) in self.live_starts.windows(2).enumerate().skip(self.singles()) {
            let firsts = (0..pair[1] - pair[0]).step_by(CHUNK_TILE_TOKENS);
            tiles.extend(firsts.map(|first| [as_i32(seq), first]));
        }
        tiles.sort_by_key(|[seq, first]| -(self.past_tokens[*seq as usize] + first));
        tiles.into_iter().flatten().collect()
    }

    /// What each wanted row is for, in their order.
    pub fn uses(&self) -> &[RowUse] {
        &self.uses
    }

    /// The step's view of one group's pages.
    pub fn paged_kv<'a>(
        &'a self,
        group: usize,
        layout: PageLayout,
        pages: terrace_device::ViewMut<'a>,
    ) -> PagedKv<'a> {
        let tables = &self.groups[group];
        let seqs = self.past_tokens.len();
        PagedKv {
            layout,
            pages,
            block_tables: View::of(&tables.block_tables, [seqs, tables.block_tables.len() / seqs]),
            past_tokens: vector(&self.past_tokens),
            live_starts: vector(&self.live_starts),
            commit_slots: vector(&tables.commit_slots),
            singles: 0,
            chunk_tiles: View::of::<i32>(&[], [0, 2]),
            row_seqs: View::of::<i32>(&[], [0]),
        }
    }

    fn want_rows(&mut self, index: usize, chunk: &Chunk, seq: &Sequence) {
        let first_row = self.ids.len();
        if seq.wants_prompt_logprobs() {
            let end = chunk.end().min(seq.prompt_len() - 1);
            for position in chunk.start..end {
                let kind = RowKind::Prompt { next: position + 1 };
                self.want(first_row + position - chunk.start, RowUse { chunk: index, kind });
            }
        }
        if chunk.sample {
            let last_row = first_row + chunk.tokens - 1;
            self.want(last_row, RowUse { chunk: index, kind: RowKind::Sample });
        }
    }

    fn want(&mut self, row: usize, purpose: RowUse) {
        self.wanted.push(as_i32(row));
        self.uses.push(purpose);
    }

    fn clear(&mut self) {
        self.ids.clear();
        self.positions.clear();
        self.row_seqs.clear();
        self.prompt_rows.clear();
        self.generated_rows.clear();
        self.wanted.clear();
        self.uses.clear();
        self.live_starts.clear();
        self.past_tokens.clear();
    }
}

impl GroupTables {
    fn fill<'s>(&mut self, plan: &StepPlan, table: impl Fn(&Chunk) -> &'s BlockTable) {
        self.block_tables.clear();
        self.commit_slots.clear();
        let width = plan.chunks.iter().map(|chunk| table(chunk).pages().len()).max().unwrap_or(0);
        for chunk in &plan.chunks {
            let table = table(chunk);
            self.block_tables.extend(table.pages().iter().map(|page| as_i32(page.index())));
            let filled = self.block_tables.len().next_multiple_of(width);
            // Entries behind a sequence's own pages are never read.
            self.block_tables.resize(filled, -1);
            let slots = (chunk.start..chunk.end()).map(|position| table.slot(position).index());
            self.commit_slots.extend(slots.map(as_i32));
        }
    }
}

fn vector(values: &[i32]) -> View<'_> {
    View::of(values, [values.len()])
}

fn as_i32(count: usize) -> i32 {
    i32::try_from(count).expect("rows, positions and slots are bounded at start")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_cut_into_tiles_behind_the_single_rows() {
        let mut batch = Batch::new(BatchShape { tokens: 400, seqs: 5, seq_pages: 1, groups: 1 });
        batch.live_starts = vec![0, 1, 2, 302, 303, 304];
        batch.past_tokens = vec![5, 9, 40, 7, 300];
        assert_eq!(batch.singles(), 2);
        // Sequence 2 in three tiles, 3 and 4 in one each; those that see most keys first.
        assert_eq!(batch.tiles(), [4, 0, 2, 256, 2, 128, 2, 0, 3, 0]);
    }

    #[test]
    fn a_step_of_single_rows_has_no_tiles() {
        let mut batch = Batch::new(BatchShape { tokens: 2, seqs: 2, seq_pages: 1, groups: 1 });
        batch.live_starts = vec![0, 1, 2];
        batch.past_tokens = vec![0, 3];
        assert_eq!(batch.singles(), 2);
        assert!(batch.tiles().is_empty());
    }
}

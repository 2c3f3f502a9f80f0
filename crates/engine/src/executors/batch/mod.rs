//! A plan as the flat arrays a step computes with.
//!
//! The arrays are made once for the largest step and refilled for each; filling decides nothing.

mod segment;

use std::ops::Range;

use terrace_device::View;
use terrace_kernels::RowKinds;
use terrace_model::{DynamicRope, TokenRows};

use crate::generate::replay::reports_slots;
use crate::generate::request::Task;
use crate::generate::seq_cache::SeqCache;
use crate::generate::seq_id::SeqId;
use crate::generate::sequence::{Sequence, Sequences};
use crate::generate::step_plan::{Chunk, ChunkInput, StepPlan};

pub(crate) use segment::Segment;

pub(crate) struct Batch {
    ids: Vec<i32>,
    positions: Vec<i32>,
    prompt_rows: Vec<u32>,
    generated_rows: Vec<u32>,
    wanted: Vec<i32>,
    uses: Vec<RowUse>,
    /// One for each kind of cache, kept for the next step.
    segments: Vec<Segment>,
    parts_used: usize,
    /// Of sequences that keep every key and value as it is.
    dense: SeqCache,
    dynamic_rope: Option<DynamicRope>,
}

/// What the logits of a wanted row are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowUse {
    /// Which of the plan's chunks the row is in.
    pub chunk: usize,
    pub kind: RowPurpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowPurpose {
    /// Report the probability of the prompt's token at this position.
    Prompt { next: usize },
    /// Sample the next token of each of the sequence's choices.
    Sample,
    /// Report the last hidden state.
    Embed,
}

/// A chunk whose slots the host must learn.
pub(crate) struct ReportedChunk {
    pub seq: SeqId,
    /// Which segment it is in, and which rows there.
    pub segment: usize,
    pub rows: Range<usize>,
}

impl Batch {
    /// For steps of at most so many tokens; `dynamic_rope` is the decoder's.
    pub fn new(tokens: usize, dense: SeqCache, dynamic_rope: Option<DynamicRope>) -> Self {
        Batch {
            ids: Vec::with_capacity(tokens),
            positions: Vec::with_capacity(tokens),
            prompt_rows: Vec::with_capacity(tokens),
            generated_rows: Vec::with_capacity(tokens),
            wanted: Vec::with_capacity(tokens),
            uses: Vec::with_capacity(tokens),
            segments: Vec::new(),
            parts_used: 0,
            dense,
            dynamic_rope,
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
            self.want_rows(index, chunk, seq);
            for position in chunk.start..chunk.end() {
                let of_its_kind = match seq.memory.is_generated(position) {
                    true => &mut self.generated_rows,
                    false => &mut self.prompt_rows,
                };
                of_its_kind.push(self.ids.len() as u32);
                self.ids.push(match chunk.input {
                    ChunkInput::Known => seq.tokens()[position] as i32,
                    // Below zero: to be looked up on the device.
                    ChunkInput::SampledBefore => -1 - as_i32(sampled_row(chunk.seq)),
                });
                self.positions.push(as_i32(position));
            }
        }
        self.fill_parts(plan, seqs);
    }

    pub fn rows(&self) -> TokenRows<'_> {
        TokenRows {
            ids: vector(&self.ids),
            sampled: None,
            positions: vector(&self.positions),
            row_kinds: RowKinds::Listed {
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

    pub fn wanted(&self) -> &[i32] {
        &self.wanted
    }

    /// One for each kind of cache in the step.
    pub fn segments(&self) -> &[Segment] {
        &self.segments[..self.parts_used]
    }

    /// What each wanted row is for, in their order.
    pub fn uses(&self) -> &[RowUse] {
        &self.uses
    }

    /// The chunks whose slots the host must learn, in their segments.
    pub fn reported_chunks(&self, plan: &StepPlan, seqs: &Sequences) -> Vec<ReportedChunk> {
        let mut chunks = plan.chunks.iter();
        let mut reported = Vec::new();
        for (index, segment) in self.segments().iter().enumerate() {
            let starts = segment.live_starts().windows(2);
            for (rows, chunk) in starts.zip(chunks.by_ref()) {
                if reports_slots(seqs[chunk.seq].policy(), chunk) {
                    let rows = rows[0] as usize..rows[1] as usize;
                    reported.push(ReportedChunk { seq: chunk.seq, segment: index, rows });
                }
            }
        }
        reported
    }

    /// Chunks with the same kind of cache stand together in a plan. Those that see re-rotated keys
    /// are a kind of their own here: they have more arrays, and not all kernels take them.
    fn fill_parts(&mut self, plan: &StepPlan, seqs: &Sequences) {
        let mut first_row = 0;
        let kind =
            |chunk: &Chunk| (seqs[chunk.seq].kind(), seqs[chunk.seq].sees_rerotated_keys(chunk));
        let of_kind = |a: &Chunk, b: &Chunk| kind(a) == kind(b);
        for chunks in plan.chunks.chunk_by(of_kind) {
            if self.segments.len() == self.parts_used {
                self.segments.push(Segment::default());
            }
            let segment = &mut self.segments[self.parts_used];
            self.parts_used += 1;
            let chunks: Vec<_> = chunks.iter().map(|chunk| (chunk, &seqs[chunk.seq])).collect();
            let cache = chunks[0].1.request().cache.as_deref().unwrap_or(&self.dense);
            segment.fill(&cache.groups, first_row, &chunks, self.dynamic_rope.as_ref());
            first_row = segment.rows().end;
        }
    }

    fn want_rows(&mut self, index: usize, chunk: &Chunk, seq: &Sequence) {
        let first_row = self.ids.len();
        if seq.wants_prompt_logprobs() {
            let end = chunk.end().min(seq.prompt_len() - 1);
            for position in chunk.start..end {
                let kind = RowPurpose::Prompt { next: position + 1 };
                self.want(first_row + position - chunk.start, RowUse { chunk: index, kind });
            }
        }
        let kind = match seq.request().task {
            Task::Generate(_) => RowPurpose::Sample,
            Task::Embed => RowPurpose::Embed,
        };
        for position in chunk.outputs.clone() {
            self.want(first_row + position - chunk.start, RowUse { chunk: index, kind });
        }
    }

    fn want(&mut self, row: usize, purpose: RowUse) {
        self.wanted.push(as_i32(row));
        self.uses.push(purpose);
    }

    fn clear(&mut self) {
        self.ids.clear();
        self.positions.clear();
        self.prompt_rows.clear();
        self.generated_rows.clear();
        self.wanted.clear();
        self.uses.clear();
        self.parts_used = 0;
    }
}

fn vector(values: &[i32]) -> View<'_> {
    View::of(values, [values.len()])
}

fn as_i32(count: usize) -> i32 {
    i32::try_from(count).expect("rows, positions and slots are bounded at start")
}

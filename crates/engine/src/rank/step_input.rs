//! What a step computes, as the arrays that ops take: made from a plan, on the host.

use terrace_device::View;
use terrace_kernels::PageLayout;
use terrace_model::hstu::{HstuStepArrays, MaskSpec, SequenceParts, StepChunk, position_row};

use super::job_rows::{FetchedRows, JobRows, RowDims};
use super::rank_job::RankJobs;
use super::rank_plan::{RankChunk, RankPlan};
use super::step_tables::StepRows;

pub(super) struct StepInput {
    pub arrays: HstuStepArrays,
    /// The embedding row of each token, and where the host makes rows, that of the position table.
    pub ids: Vec<i32>,
    pub positions: Vec<i32>,
    rows_on_device: bool,
    /// The tokens that are scored.
    pub scored: Vec<i32>,
    /// Where the model looks at them.
    pub times: Option<InputTimes>,
    pub streams: Option<InputStreams>,
    /// Where each step brings the rows of its tokens: `ids` are then tokens of the step.
    pub rows: Option<InputRows>,
}

/// Embedding rows of a step's tokens.
pub(super) struct InputRows {
    dims: RowDims,
    /// `[tokens, items]`; of the context too, where that is not embedded apart.
    pub items: Vec<f32>,
    /// `[tokens, context]`, where it is: zeros for tokens of items.
    pub context: Vec<f32>,
}

/// Where context and items are embedded apart: `ids` are then those of items, 0 for others.
pub(super) struct InputStreams {
    /// Tokens of a history that are its context.
    context: usize,
    /// The row of a token of the context; -1 for others.
    pub context_ids: Vec<i32>,
}

/// When events happened.
pub(super) struct InputTimes {
    /// `[tokens]`: of the event after each.
    pub rows: Vec<i64>,
    /// `[seqs, positions]`
    pub keys: Vec<i64>,
    pub positions: usize,
}

impl StepInput {
    /// For histories of at most `table_pages`, with at most so many candidates in a step.
    /// `positions`: those whose times are looked at, if any are; `context`: its tokens, where they
    /// are embedded apart; `brought`: how wide rows are that steps bring.
    pub fn new(
        layout: &PageLayout,
        table_pages: usize,
        candidates: usize,
        positions: Option<usize>,
        rows_on_device: bool,
        context: Option<usize>,
        brought: Option<RowDims>,
    ) -> Self {
        StepInput {
            arrays: match rows_on_device {
                true => HstuStepArrays::rows_on_device(layout, table_pages, candidates),
                false => HstuStepArrays::new(layout, table_pages, candidates),
            },
            rows_on_device,
            ids: Vec::new(),
            positions: Vec::new(),
            scored: Vec::new(),
            times: positions.map(|positions| InputTimes {
                rows: Vec::new(),
                keys: Vec::new(),
                positions,
            }),
            streams: context.map(|context| InputStreams { context, context_ids: Vec::new() }),
            rows: brought.map(InputRows::new),
        }
    }

    /// `position_rows`: rows of the model's position table, where it has one.
    pub fn fill(&mut self, plan: &RankPlan, jobs: &RankJobs, position_rows: Option<usize>) {
        self.arrays.clear();
        self.ids.clear();
        self.positions.clear();
        self.scored.clear();
        if let Some(times) = &mut self.times {
            times.rows.clear();
            times.keys.clear();
        }
        if let Some(streams) = &mut self.streams {
            streams.context_ids.clear();
        }
        if let Some(rows) = &mut self.rows {
            rows.items.clear();
            rows.context.clear();
        }
        for chunk in &plan.chunks {
            let job = &jobs[&chunk.job];
            let RankChunk { history, candidates, .. } = chunk;
            let tokens = job.ids.len();
            let parts =
                SequenceParts { context: None, history: tokens, candidates: job.rows.candidates() };
            self.arrays.push(
                &MaskSpec::CAUSAL,
                &StepChunk {
                    table: &job.progress.table,
                    parts,
                    past: history.start,
                    history_rows: history.len(),
                    first_candidate: candidates.start,
                    candidate_rows: candidates.len(),
                },
            );
            let position =
                |at: usize| position_rows.map_or(-1, |rows| position_row(at, tokens, rows) as i32);
            let start = self.ids.len();
            self.add_rows(&job.rows, chunk);
            if !self.rows_on_device {
                let behind = candidates.clone().map(|_| tokens);
                self.positions.extend(history.clone().chain(behind).map(position));
            }
            if let Some(streams) = &mut self.streams {
                streams.add(&mut self.ids[start..], history.start);
            }
            let scored = start + history.len()..self.ids.len();
            self.scored.extend(scored.map(|token| token as i32));
            if let (Some(times), Some(of_job)) = (&mut self.times, &job.times) {
                let behind = candidates.clone().map(|candidate| tokens + candidate);
                times.rows.extend(history.clone().chain(behind).map(|at| of_job.after(at)));
                let end = times.keys.len() + times.positions;
                times.keys.extend(&of_job.keys);
                times.keys.resize(end, 0);
            }
        }
    }

    /// The rows of a chunk's tokens.
    fn add_rows(&mut self, rows: &JobRows, chunk: &RankChunk) {
        let RankChunk { history, candidates, .. } = chunk;
        match (rows, &mut self.rows) {
            (JobRows::Numbers { history: numbers, candidates: of_candidates }, None) => {
                self.ids.extend(&numbers[history.clone()]);
                self.ids.extend(&of_candidates[candidates.clone()]);
            }
            (JobRows::Fetched(rows), Some(input)) => {
                input.add(rows, chunk);
                let first = self.ids.len();
                let tokens = first..first + history.len() + candidates.len();
                self.ids.extend(tokens.map(|token| token as i32));
            }
            _ => panic!("rows of a job of another kind of tables"),
        }
    }

    /// The context's row of each token and which row it has, as in
    /// [`ContextRows`](terrace_model::hstu::ContextRows), in a step of so many tokens.
    pub fn apart(&self, step_tokens: usize) -> Option<[Vec<i32>; 2]> {
        let context_ids = &self.streams.as_ref()?.context_ids;
        let chosen = context_ids.iter().enumerate().map(|(token, context)| {
            let behind = if 0 <= *context { step_tokens } else { 0 };
            (token + behind) as i32
        });
        let rows = context_ids.iter().map(|id| (*id).max(0));
        Some([rows.collect(), chosen.collect()])
    }

    pub fn tokens(&self) -> usize {
        self.ids.len()
    }
}

impl InputRows {
    pub fn new(dims: RowDims) -> Self {
        InputRows { dims, items: Vec::new(), context: Vec::new() }
    }

    fn add(&mut self, rows: &FetchedRows, RankChunk { history, candidates, .. }: &RankChunk) {
        for items in rows.items(history, candidates) {
            self.items.extend(items);
        }
        if let Some(dim) = self.dims.context {
            let end = self.items.len() / self.dims.items * dim;
            self.context.extend(rows.context(history));
            self.context.resize(end, 0.0);
        }
    }

    pub fn views(&self) -> StepRows<'_> {
        let tokens = self.items.len() / self.dims.items;
        let context = self.dims.context.map(|dim| View::of(&self.context, [tokens, dim]));
        StepRows { items: View::of(&self.items, [tokens, self.dims.items]), context }
    }
}

impl InputStreams {
    /// Takes tokens of the context out of a sequence's ids, of which the first is at `position`.
    fn add(&mut self, ids: &mut [i32], position: usize) {
        let of_context = self.context.saturating_sub(position).min(ids.len());
        let (context, items) = ids.split_at_mut(of_context);
        self.context_ids.extend(context.iter());
        context.fill(0);
        let end = self.context_ids.len() + items.len();
        self.context_ids.resize(end, -1);
    }
}

//! What a step computes, as the arrays that ops take: made from a plan, on the host.

use terrace_kernels::PageLayout;
use terrace_model::hstu::{HstuStepArrays, MaskSpec, SequenceParts, StepChunk, position_row};

use super::rank_job::RankJobs;
use super::rank_plan::{RankChunk, RankPlan};

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
    /// `positions`: those whose times are looked at, if any are.
    pub fn new(
        layout: &PageLayout,
        table_pages: usize,
        candidates: usize,
        positions: Option<usize>,
        rows_on_device: bool,
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
        for chunk in &plan.chunks {
            let job = &jobs[&chunk.job];
            let RankChunk { history, candidates, .. } = chunk;
            let tokens = job.ids.len();
            let parts = SequenceParts {
                context: None,
                history: tokens,
                candidates: job.candidate_rows.len(),
            };
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
            self.ids.extend(&job.rows[history.clone()]);
            if !self.rows_on_device {
                let behind = candidates.clone().map(|_| tokens);
                self.positions.extend(history.clone().chain(behind).map(position));
            }
            let first = self.ids.len();
            self.ids.extend(&job.candidate_rows[candidates.clone()]);
            let scored = first..self.ids.len();
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

    pub fn tokens(&self) -> usize {
        self.ids.len()
    }
}

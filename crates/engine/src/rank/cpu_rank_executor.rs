//! Computes plans on the host's own processor.

use std::sync::Arc;

use terrace_cache::KvBuffer;
use terrace_device::{DType, View, Workspace};
use terrace_embedding::TableSet;
use terrace_kernels::{HstuKv, HstuStepSize, Ops, PageLayout};
use terrace_model::hstu::{
    HstuStepArrays, HstuStepCtx, MaskSpec, RankingModel, RankingStep, SequenceParts, StepChunk,
    position_row,
};

use super::rank_executor::{ChunkScores, RankExecutor};
use super::rank_job::RankJobs;
use super::rank_plan::{RankChunk, RankPlan};
use crate::error::Error;

pub struct CpuRankExecutor {
    ops: Ops,
    model: RankingModel,
    tables: Arc<TableSet>,
    layout: PageLayout,
    kv: KvBuffer,
    workspace: Workspace,
    arrays: HstuStepArrays,
    rows: StepRows,
}

/// What a step's tokens are.
#[derive(Default)]
struct StepRows {
    ids: Vec<i32>,
    positions: Vec<i32>,
    /// The tokens that are scored.
    scored: Vec<i32>,
}

/// Bounds fixed when the executor is made; all memory is taken from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankShape {
    pub max_step_tokens: usize,
    pub max_users: usize,
    pub max_history_tokens: usize,
    pub max_candidates: usize,
    pub pages: usize,
}

impl CpuRankExecutor {
    pub(super) fn new(
        ops: Ops,
        model: RankingModel,
        tables: Arc<TableSet>,
        layout: PageLayout,
        shape: RankShape,
    ) -> Result<Self, Error> {
        let RankShape { max_step_tokens, max_users, pages, .. } = shape;
        let kv = KvBuffer::new(&ops.device(), layout.page_bytes(), pages)?;
        let scored = max_step_tokens;
        let table_pages = shape.max_history_tokens.div_ceil(layout.page_tokens);
        let size = HstuStepSize { tokens: max_step_tokens, seqs: max_users, table_pages };
        let bytes = model.workspace_bytes(&ops, &layout, size, scored)
            + Workspace::bytes_for(DType::F32, [scored, model.outputs()]);
        let workspace = Workspace::new(&ops.device(), bytes)?;
        let arrays = HstuStepArrays::new(&layout, table_pages, shape.max_candidates);
        let rows = StepRows::default();
        Ok(CpuRankExecutor { ops, model, tables, layout, kv, workspace, arrays, rows })
    }

    fn fill(&mut self, plan: &RankPlan, jobs: &RankJobs) {
        self.arrays.clear();
        self.rows.clear();
        let position_rows = self.model.position_rows();
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
            self.rows.ids.extend(&job.rows[history.clone()]);
            self.rows.positions.extend(history.clone().map(position));
            let first = self.rows.ids.len();
            self.rows.ids.extend(&job.candidate_rows[candidates.clone()]);
            self.rows.positions.extend(candidates.clone().map(|_| position(tokens)));
            let scored = first..self.rows.ids.len();
            self.rows.scored.extend(scored.map(|token| token as i32));
        }
    }
}

impl StepRows {
    fn clear(&mut self) {
        self.ids.clear();
        self.positions.clear();
        self.scored.clear();
    }
}

impl RankExecutor for CpuRankExecutor {
    fn run(&mut self, plan: &RankPlan, jobs: &RankJobs) -> Result<Vec<ChunkScores>, Error> {
        assert!(plan.promotions.is_empty(), "on the CPU pages are in host memory already");
        self.fill(plan, jobs);
        self.workspace.reset();
        let (arrays, rows) = (&self.arrays, &self.rows);
        let (tokens, seqs, scored) = (rows.ids.len(), arrays.seqs(), rows.scored.len());
        let tiles: [i32; 0] = [];
        let mut kv = HstuKv {
            layout: self.layout,
            pages: self.kv.pages_mut(),
            block_tables: View::of(&arrays.block_tables, [seqs, arrays.table_pages]),
            past_tokens: View::of(&arrays.past_tokens, [seqs]),
            live_starts: View::of(&arrays.live_starts, [seqs + 1]),
            history_rows: View::of(&arrays.history_rows, [seqs]),
            commit_slots: View::of(&arrays.commit_slots, [tokens]),
            spans: View::of(&arrays.spans, [tokens, 4]),
            live_tables: View::of(&arrays.live_tables, [seqs, arrays.live_table_pages]),
            row_seqs: View::of(&arrays.row_seqs, [tokens]),
            tiles: View::of(&tiles, [0, 8]),
        };
        let step = RankingStep {
            rows: self.tables.rows(),
            ids: View::of(&rows.ids, [tokens]),
            position_rows: View::of(&rows.positions, [tokens]),
            scored: View::of(&rows.scored, [scored]),
        };
        let outputs = self.model.outputs();
        let mut out = self.workspace.take(DType::F32, [scored, outputs]);
        let ctx = HstuStepCtx { ops: &self.ops, workspace: &self.workspace };
        self.model.forward(ctx, step, &mut kv, out.reborrow());
        let mut logits = out.as_mut_slice::<f32>().chunks(outputs);
        let mut scores = Vec::new();
        for chunk in plan.chunks.iter().filter(|chunk| !chunk.candidates.is_empty()) {
            let own = logits.by_ref().take(chunk.candidates.len());
            scores.push(ChunkScores { job: chunk.job, logits: own.flatten().copied().collect() });
        }
        Ok(scores)
    }
}

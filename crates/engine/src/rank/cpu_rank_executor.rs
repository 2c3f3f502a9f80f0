//! Computes plans on the host's own processor.

use terrace_cache::{KvBuffer, MoveId, PageMove};
use terrace_device::{Buffer, DType, View, Workspace};
use terrace_kernels::{HstuKv, HstuTileViews, HstuTiles, Ops, PageLayout};
use terrace_model::hstu::{HstuModel, HstuStep, HstuStepCtx, StepTimes};
use terrace_tiers::{PageStore, Wait};

use super::chunk_result::ChunkResult;
use super::executor_parts::{ExecutorParts, RankShape};
use super::item_search::{ItemSearch, QueryOf, in_groups, listed_excluded};
use super::loaded_model::LoadedModel;
use super::rank_executor::RankExecutor;
use super::rank_job::RankJobs;
use super::rank_plan::RankPlan;
use super::step_input::{InputRows, StepInput};
use super::step_tables::StepTables;
use crate::error::Error;

pub struct CpuRankExecutor {
    ops: Ops,
    shape: RankShape,
    model: HstuModel,
    tables: StepTables,
    search: Option<ItemSearch>,
    layout: PageLayout,
    kv: KvBuffer,
    store: PageStore,
    workspace: Workspace,
    /// f32 `[scored, outputs]`: logits or queries.
    out: Buffer,
    input: StepInput,
    /// Copies to the host that nobody has asked about.
    arrived: Vec<MoveId>,
}

impl CpuRankExecutor {
    pub(super) fn new(parts: ExecutorParts) -> Result<Self, Error> {
        let device = parts.ops.device();
        let kv = KvBuffer::new(&device, parts.layout.page_bytes(), parts.shape.pages)?;
        let workspace = Workspace::new(&device, parts.workspace_bytes())?;
        let out = device.take(parts.out_bytes(), "scores")?;
        let input = parts.input();
        let ExecutorParts { ops, model, tables, search, layout, store, shape } = parts;
        Ok(CpuRankExecutor {
            ops,
            shape,
            model,
            tables,
            search,
            layout,
            kv,
            store,
            workspace,
            out,
            input,
            arrived: Vec::new(),
        })
    }
}

impl RankExecutor for CpuRankExecutor {
    fn start_moves(&mut self, moves: &[PageMove]) -> Result<(), Error> {
        Ok(moves.iter().try_for_each(|asked| self.store.start(asked, &mut self.kv))?)
    }

    fn arrived(&mut self) -> Result<Vec<MoveId>, Error> {
        let mut arrived = std::mem::take(&mut self.arrived);
        arrived.extend(self.store.arrived(Wait::No)?);
        Ok(arrived)
    }

    fn replace(&mut self, loaded: LoadedModel) -> Result<(), Error> {
        let taken = [self.workspace.len(), self.out.len()];
        self.shape.check(&self.ops, &self.layout, &loaded.model, taken)?;
        let tables = StepTables::new(&loaded.config, &loaded.tables);
        let LoadedModel { model, search, .. } = loaded;
        (self.model, self.tables, self.search) = (model, tables, search);
        Ok(())
    }

    fn run(&mut self, plan: &RankPlan, jobs: &RankJobs) -> Result<Vec<ChunkResult>, Error> {
        if !plan.promotions.is_empty() {
            // On the CPU a move is over when it is started; those before it may be known already.
            self.arrived.extend(self.store.arrived(Wait::No)?);
            self.start_moves(&plan.promotions)?;
            self.store.arrived(Wait::No)?;
        }
        if plan.chunks.is_empty() {
            return Ok(Vec::new());
        }
        self.input.fill(plan, jobs, self.model.position_rows());
        self.forward();
        let (scored, outputs) = (self.input.scored.len(), self.model.outputs());
        let out = self.out.view(DType::F32, [scored, outputs]);
        Ok(match &mut self.search {
            None => ChunkResult::of_logits(plan, out.as_slice::<f32>(), outputs),
            Some(search) => find_items(&self.ops, search, out, &QueryOf::listed(plan, jobs)),
        })
    }
}

impl CpuRankExecutor {
    /// Computes the step whose input is there.
    fn forward(&mut self) {
        self.workspace.reset();
        let StepInput { arrays, ids, positions, scored: wanted, times, .. } = &self.input;
        let (tokens, seqs, scored) = (ids.len(), arrays.seqs(), wanted.len());
        let none: [i32; 0] = [];
        let no_tiles = HstuTileViews {
            items: View::of(&none, [0, HstuTiles::ITEM_WORDS]),
            sums: View::of(&none, [0, HstuTiles::SUM_WORDS]),
        };
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
            tiles: no_tiles,
            candidate_tiles: no_tiles,
        };
        let apart = self.input.apart(tokens);
        let apart = apart.as_ref().map(|it| it.each_ref().map(|ids| View::of(ids, [tokens])));
        let brought = self.input.rows.as_ref().map(InputRows::views);
        let step = HstuStep {
            rows: self.tables.rows(brought, View::of(ids, [tokens]), apart),
            position_rows: View::of(positions, [tokens]),
            scored: View::of(wanted, [scored]),
            times: times.as_ref().map(|times| StepTimes {
                rows: View::of(&times.rows, [tokens]),
                keys: View::of(&times.keys, [seqs, times.positions]),
            }),
        };
        let out = self.out.view_mut(DType::F32, [scored, self.model.outputs()]);
        self.model.forward(HstuStepCtx::new(&self.ops, &self.workspace), step, &mut kv, out);
    }
}

/// queries: f32 `[queries, dim]`
fn find_items(
    ops: &Ops,
    search: &mut ItemSearch,
    queries: View<'_>,
    of: &[QueryOf<'_>],
) -> Vec<ChunkResult> {
    let mut results = Vec::new();
    for (rows, of_group) in in_groups(queries, of) {
        let (starts, excluded) = listed_excluded(of_group);
        let starts = View::of(&starts, [starts.len()]);
        search.start(ops, rows, starts, View::of(&excluded, [excluded.len()]));
        let [scores, rows] = search.found(of_group.len());
        let found = of_group.iter().enumerate();
        results.extend(found.map(|(index, it)| it.result(scores.row(index), rows.row(index))));
    }
    results
}

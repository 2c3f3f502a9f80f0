//! Computes plans on a GPU.

use std::sync::Arc;

use terrace_cache::{KvBuffer, MoveId, PageMove};
use terrace_device::cuda::{CudaDevice, CudaEvent};
use terrace_device::{Buffer, DType, Device, Workspace};
use terrace_embedding::TableSet;
use terrace_kernels::{
    HSTU_TILE_ROWS, HostCopier, HstuKv, HstuStepSize, LayerCuts, MappedBuffer, Ops, PageLayout,
};
use terrace_model::hstu::{HstuStepCtx, RankingModel, RankingStep};
use terrace_tiers::{PageStore, Wait};

use super::rank_form::{RankForm, SPAN_WORDS, TILE_WORDS};
use super::rank_graphs::{RankGraphs, Recorded};
use crate::error::Error;
use crate::rank::rank_executor::{ChunkScores, RankExecutor};
use crate::rank::rank_job::RankJobs;
use crate::rank::rank_plan::RankPlan;
use crate::rank::rank_shape::RankShape;
use crate::rank::step_input::StepInput;

pub(in crate::rank) struct CudaRankExecutor {
    memory: StepMemory,
    store: PageStore,
    input: StepInput,
    /// Pinned: a step's arrays on their way, and its logits.
    staging: MappedBuffer,
    logits: MappedBuffer,
    mark: CudaEvent,
    graphs: RankGraphs,
    most: RankForm,
    /// Copies to the host that nobody has asked about.
    arrived: Vec<MoveId>,
}

/// What a step reads and writes on the device.
struct StepMemory {
    device: Arc<CudaDevice>,
    ops: Ops,
    model: RankingModel,
    tables: Arc<TableSet>,
    layout: PageLayout,
    kv: KvBuffer,
    workspace: Workspace,
    arrays: Buffer,
}

impl CudaRankExecutor {
    pub fn new(
        ops: Ops,
        model: RankingModel,
        tables: Arc<TableSet>,
        layout: PageLayout,
        store: PageStore,
        shape: RankShape,
    ) -> Result<Self, Error> {
        let on = ops.device();
        let Device::Cuda(device) = &on else { panic!("not the ops of a GPU") };
        let device = Arc::clone(device);
        let RankShape { max_step_tokens: tokens, max_users: seqs, pages, .. } = shape;
        let table_pages = shape.max_history_tokens.div_ceil(layout.page_tokens);
        let input = StepInput::new(&layout, table_pages, shape.max_candidates);
        let most = RankForm {
            tokens,
            seqs,
            scored: tokens,
            tiles: tokens.div_ceil(HSTU_TILE_ROWS) + seqs,
            table_pages,
            live_table_pages: input.arrays.live_table_pages,
        };
        let size = HstuStepSize { tokens, seqs, table_pages };
        let bytes = model.workspace_bytes(&ops, &layout, size, tokens)
            + Workspace::bytes_for(DType::F32, [tokens, model.outputs()]);
        let (outputs, words) = (model.outputs(), most.places().words);
        let copier = HostCopier::load(&device)?;
        let memory = StepMemory {
            kv: KvBuffer::new(&on, layout.page_bytes(), pages)?,
            workspace: Workspace::new(&on, bytes)?,
            arrays: on.take(DType::I32.bytes() * words, "arrays of a step")?,
            device: Arc::clone(&device),
            ops,
            model,
            tables,
            layout,
        };
        Ok(CudaRankExecutor {
            memory,
            store,
            input,
            staging: MappedBuffer::new(&copier, &device, DType::I32.bytes() * words)?,
            logits: MappedBuffer::new(&copier, &device, DType::F32.bytes() * tokens * outputs)?,
            mark: device.event()?,
            graphs: RankGraphs::default(),
            most,
            arrived: Vec::new(),
        })
    }

    /// Launches a step whose arrays are in the staging buffer.
    fn launch(&mut self, plan: &RankPlan) -> Result<(), Error> {
        let exact = RankForm::of(&self.input);
        let padded = match plan.promotions.is_empty() {
            true => exact.padded(&self.most),
            false => None,
        };
        let form = padded.unwrap_or(exact);
        self.write_staging(&form);
        let CudaRankExecutor { memory, graphs, staging, logits, store, .. } = self;
        let layer_bytes = memory.layer_bytes();
        let wait_for = |layer: usize| {
            let bytes = layer_bytes * (layer + 1);
            plan.promotions.iter().for_each(|it| store.compute_waits(it.id, bytes));
        };
        match padded.map(|form| graphs.of(&form)) {
            None => memory.forward(&form, staging, logits, Some(&wait_for)),
            Some(Recorded::First) => memory.forward(&form, staging, logits, None),
            Some(Recorded::Graph(graph)) => graph.launch(),
            Some(Recorded::Record) => {
                let device = Arc::clone(&memory.device);
                let graph = device.capture(|| memory.forward(&form, staging, logits, None))?;
                graphs.keep(&form, graph).launch();
            }
        }
        Ok(())
    }

    fn write_staging(&mut self, form: &RankForm) {
        let words = form.places().words;
        let mut numbers = self.staging.view_mut(DType::I32, [words]);
        form.write(&self.input, numbers.as_mut_slice::<i32>());
    }

    /// Begins the moves that a step waits for, some layers at a time.
    fn start_promotions(&mut self, plan: &RankPlan) -> Result<(), Error> {
        let memory = &mut self.memory;
        let layers = memory.layout.layers;
        let parts =
            LayerCuts::Graded.parts(memory.layout.page_bytes(), memory.layer_bytes(), layers);
        for promotion in &plan.promotions {
            self.store.start_parts(promotion, &mut memory.kv, &parts)?;
        }
        Ok(())
    }

    fn compute(&mut self, plan: &RankPlan, jobs: &RankJobs) -> Result<Vec<ChunkScores>, Error> {
        self.start_promotions(plan)?;
        let outputs = self.memory.model.outputs();
        let mut scores = Vec::new();
        if plan.chunks.is_empty() {
            plan.promotions.iter().for_each(|it| {
                self.store.compute_waits(it.id, self.memory.layout.page_bytes());
            });
            self.mark.record();
            self.mark.wait()?;
        } else {
            self.input.fill(plan, jobs, self.memory.model.position_rows());
            self.launch(plan)?;
            self.mark.record();
            self.mark.wait()?;
            let scored = self.input.scored.len();
            let logits = self.logits.view(DType::F32, [scored * outputs]);
            scores = ChunkScores::of_chunks(plan, logits.as_slice(), outputs);
        }
        let is_awaited = |id: &MoveId| plan.promotions.iter().any(|it| it.id == *id);
        let arrived = self.store.arrived(Wait::No)?;
        self.arrived.extend(arrived.into_iter().filter(|id| !is_awaited(id)));
        Ok(scores)
    }

    /// After an error: nothing moves any more, once the device has left it.
    fn drain(&mut self) {
        self.store.drain();
        self.arrived.clear();
        if let Err(error) = self.memory.device.synchronize() {
            tracing::error!(%error, "the GPU did not recover");
        }
    }
}

impl StepMemory {
    fn layer_bytes(&self) -> usize {
        self.layout.page_bytes() / self.layout.layers
    }

    /// Brings a step's arrays to the device, computes it, and brings its logits back.
    fn forward(
        &mut self,
        form: &RankForm,
        staging: &MappedBuffer,
        logits: &mut MappedBuffer,
        wait_for: Option<&dyn Fn(usize)>,
    ) {
        let RankForm { tokens, seqs, scored, tiles, table_pages, live_table_pages } = *form;
        let places = form.places();
        staging.copy_to(&self.arrays.view_mut(DType::I32, [places.words]));
        self.workspace.reset();
        let words = self.arrays.view(DType::I32, [places.words]);
        let array = |place: &std::ops::Range<usize>| words.rows(place.clone());
        let mut kv = HstuKv {
            layout: self.layout,
            pages: self.kv.pages_mut(),
            block_tables: array(&places.block_tables).reshape([seqs, table_pages]),
            past_tokens: array(&places.past_tokens),
            live_starts: array(&places.live_starts),
            history_rows: array(&places.history_rows),
            commit_slots: array(&places.commit_slots),
            spans: array(&places.spans).reshape([tokens, SPAN_WORDS]),
            live_tables: array(&places.live_tables).reshape([seqs, live_table_pages]),
            row_seqs: array(&places.row_seqs),
            tiles: array(&places.tiles).reshape([tiles, TILE_WORDS]),
        };
        let step = RankingStep {
            rows: self.tables.rows(),
            ids: array(&places.ids),
            position_rows: array(&places.positions),
            scored: array(&places.scored),
        };
        let mut out = self.workspace.take(DType::F32, [scored, self.model.outputs()]);
        let ctx =
            HstuStepCtx { before_pages: wait_for, ..HstuStepCtx::new(&self.ops, &self.workspace) };
        self.model.forward(ctx, step, &mut kv, out.reborrow());
        if 0 < scored {
            logits.copy_from(0, out.as_view());
        }
    }
}

impl RankExecutor for CudaRankExecutor {
    fn start_moves(&mut self, moves: &[PageMove]) -> Result<(), Error> {
        let CudaRankExecutor { store, memory, .. } = self;
        let mut moves = moves.iter();
        let started = moves.try_for_each(|asked| store.start(asked, &mut memory.kv));
        Ok(started.inspect_err(|_| self.drain())?)
    }

    fn arrived(&mut self, wait: Wait) -> Result<Vec<MoveId>, Error> {
        let mut arrived = std::mem::take(&mut self.arrived);
        let wait = if arrived.is_empty() { wait } else { Wait::No };
        let more = self.store.arrived(wait).inspect_err(|_| self.drain())?;
        arrived.extend(more);
        Ok(arrived)
    }

    fn run(&mut self, plan: &RankPlan, jobs: &RankJobs) -> Result<Vec<ChunkScores>, Error> {
        self.compute(plan, jobs).inspect_err(|_| self.drain())
    }
}

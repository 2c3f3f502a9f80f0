//! Computes plans on a GPU.

use std::sync::Arc;

use terrace_cache::{KvBuffer, MoveId, PageMove};
use terrace_device::cuda::{CudaDevice, CudaEvent};
use terrace_device::{Buffer, DType, Device, Workspace};
use terrace_kernels::{
    HSTU_TILE_ROWS, HostCopier, HstuKv, HstuTileViews, HstuTiling, LayerCuts, MappedBuffer, Ops,
    PageLayout,
};
use terrace_model::hstu::{HstuModel, HstuStep, HstuStepCtx};
use terrace_tiers::{PageStore, Wait};

use super::cuda_item_search::CudaItemSearch;
use super::cuda_rows::{CudaRows, StepSeqs};
use super::cuda_step_rows::CudaStepRows;
use super::cuda_times::CudaTimes;
use super::layer_marks::LayerMarks;
use super::rank_form::{RankForm, StepTiles, TILE_WORDS};
use crate::error::Error;
use crate::rank::chunk_result::ChunkResult;
use crate::rank::executor_parts::{ExecutorParts, RankShape};
use crate::rank::item_search::QueryOf;
use crate::rank::loaded_model::LoadedModel;
use crate::rank::rank_executor::RankExecutor;
use crate::rank::rank_job::RankJobs;
use crate::rank::rank_plan::RankPlan;
use crate::rank::rank_trace::LayerTimes;
use crate::rank::step_input::StepInput;
use crate::rank::step_tables::StepTables;
use crate::recorded_graphs::{Recorded, RecordedGraphs};

pub(in crate::rank) struct CudaRankExecutor {
    memory: StepMemory,
    shape: RankShape,
    store: PageStore,
    input: StepInput,
    /// Pinned: a step's arrays on their way, and its logits.
    staging: MappedBuffer,
    logits: MappedBuffer,
    search: Option<CudaItemSearch>,
    /// The begin and the end of a step.
    marks: [CudaEvent; 2],
    device_us: u64,
    /// Where layers are timed.
    layers: Option<LayerMarks>,
    graphs: RecordedGraphs<RankForm>,
    most: RankForm,
    tiling: HstuTiling,
    /// Copies to the host that nobody has asked about.
    arrived: Vec<MoveId>,
}

/// What a step reads and writes on the device.
struct StepMemory {
    device: Arc<CudaDevice>,
    ops: Ops,
    model: HstuModel,
    tables: StepTables,
    layout: PageLayout,
    kv: KvBuffer,
    workspace: Workspace,
    arrays: Buffer,
    rows: CudaRows,
    times: Option<CudaTimes>,
    /// Where steps bring the embedding rows of their tokens.
    brought: Option<CudaStepRows>,
    /// f32 `[scored, outputs]`: logits or queries.
    out: Buffer,
}

impl CudaRankExecutor {
    pub fn new(parts: ExecutorParts) -> Result<Self, Error> {
        let (table_pages, bytes, input) =
            (parts.table_pages(), parts.workspace_bytes(), parts.input());
        let out_bytes = parts.out_bytes();
        let ExecutorParts { ops, model, tables, search, layout, store, shape } = parts;
        let on = ops.device();
        let Device::Cuda(device) = &on else { panic!("not the ops of a GPU") };
        let device = Arc::clone(device);
        let RankShape { max_step_tokens: tokens, max_users: seqs, pages, .. } = shape;
        let tiling = ops.hstu_tiling(&layout);
        let whole = tokens.div_ceil(HSTU_TILE_ROWS) + seqs;
        let tiles = [whole + tiling.parts, tiling.parts];
        let most = RankForm {
            tokens,
            seqs,
            scored: shape.max_scored,
            tiles,
            candidate_tiles: tiles,
            table_pages,
            live_table_pages: input.arrays.live_table_pages,
            has_streams: shape.has_streams,
        };
        let words = most.places().words;
        let times = input.times.as_ref().map(|times| times.positions);
        let copier = HostCopier::load(&device)?;
        let memory = StepMemory {
            kv: KvBuffer::new(&on, layout.page_bytes(), pages)?,
            workspace: Workspace::new(&on, bytes)?,
            arrays: on.take(DType::I32.bytes() * words, "arrays of a step")?,
            rows: CudaRows::new(&on, tokens)?,
            times: times
                .map(|positions| CudaTimes::new(&copier, &device, [tokens, seqs, positions]))
                .transpose()?,
            brought: tables
                .brought()
                .map(|dims| CudaStepRows::new(&copier, &device, tokens, dims))
                .transpose()?,
            out: on.take(out_bytes, "scores")?,
            device: Arc::clone(&device),
            ops,
            model,
            tables,
            layout,
        };
        Ok(CudaRankExecutor {
            memory,
            shape,
            store,
            input,
            staging: MappedBuffer::new(&copier, &device, DType::I32.bytes() * words)?,
            logits: MappedBuffer::new(&copier, &device, out_bytes)?,
            search: search
                .map(|search| CudaItemSearch::new(&copier, &device, search))
                .transpose()?,
            marks: [device.event()?, device.event()?],
            device_us: 0,
            layers: None,
            graphs: RecordedGraphs::default(),
            most,
            tiling,
            arrived: Vec::new(),
        })
    }

    /// Launches a step, as a recorded graph where there is one.
    fn launch(&mut self, plan: &RankPlan) -> Result<(), Error> {
        let tiles = StepTiles {
            all: self.input.arrays.tiles(self.tiling),
            candidates: self.input.arrays.candidate_tiles(self.tiling),
        };
        let exact = RankForm::of(&self.input, &tiles);
        let padded = match plan.promotions.is_empty() {
            true => exact.padded(&self.most),
            false => None,
        };
        let form = padded.unwrap_or(exact);
        let words = form.places().words;
        let mut numbers = self.staging.view_mut(DType::I32, [words]);
        form.write(&self.input, &tiles, numbers.as_mut_slice::<i32>());
        if let (Some(times), Some(input)) = (&mut self.memory.times, &self.input.times) {
            times.write(input);
        }
        if let (Some(brought), Some(input)) = (&mut self.memory.brought, &self.input.rows) {
            brought.write(input);
        }
        self.marks[0].record();
        let CudaRankExecutor { memory, graphs, staging, logits, store, layers, .. } = self;
        let layers = layers.as_ref().filter(|_| !plan.promotions.is_empty());
        let layer_bytes = memory.layer_bytes();
        let wait_for = |layer: usize| {
            let bytes = layer_bytes * (layer + 1);
            layers.iter().for_each(|marks| marks.asks(layer));
            plan.promotions.first().iter().for_each(|it| store.compute_waits(it.id, bytes));
            layers.iter().for_each(|marks| marks.begins(layer));
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

    /// Begins the moves that a step waits for, some layers of all users at a time.
    fn start_promotions(&mut self, plan: &RankPlan) -> Result<(), Error> {
        let memory = &mut self.memory;
        let layers = memory.layout.layers;
        let parts =
            LayerCuts::Graded.parts(memory.layout.page_bytes(), memory.layer_bytes(), layers);
        if let Some(all) = merged(&plan.promotions) {
            self.store.start_parts(&all, &mut memory.kv, &parts)?;
        }
        Ok(())
    }

    /// Waits for the end of what was launched since the first mark.
    fn finish_step(&mut self) -> Result<(), Error> {
        let [begin, end] = &self.marks;
        end.record();
        end.wait()?;
        self.device_us = (end.ms_since(begin)? * 1000.0) as u64;
        let [begin, end] = &self.marks;
        self.layers.iter_mut().try_for_each(|layers| layers.read(begin, end))?;
        Ok(())
    }

    fn compute(&mut self, plan: &RankPlan, jobs: &RankJobs) -> Result<Vec<ChunkResult>, Error> {
        self.start_promotions(plan)?;
        let outputs = self.memory.model.outputs();
        let mut results = Vec::new();
        if plan.chunks.is_empty() {
            self.marks[0].record();
            plan.promotions.first().iter().for_each(|it| {
                self.store.compute_waits(it.id, self.memory.layout.page_bytes());
            });
            self.finish_step()?;
        } else {
            self.input.fill(plan, jobs, self.memory.model.position_rows());
            self.launch(plan)?;
            self.finish_step()?;
            let scored = self.input.scored.len();
            results = match &mut self.search {
                None => {
                    let logits = self.logits.view(DType::F32, [scored * outputs]);
                    ChunkResult::of_logits(plan, logits.as_slice(), outputs)
                }
                Some(search) => {
                    let queries = self.memory.out.view(DType::F32, [scored, outputs]);
                    search.run(
                        &self.memory.ops,
                        queries,
                        &QueryOf::listed(plan, jobs),
                        &self.marks[1],
                    )?
                }
            };
        }
        let is_awaited = |id: &MoveId| plan.promotions.iter().any(|it| it.id == *id);
        let arrived = self.store.arrived(Wait::No)?;
        self.arrived.extend(arrived.into_iter().filter(|id| !is_awaited(id)));
        Ok(results)
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
        let RankForm { tokens, seqs, scored, table_pages, live_table_pages, .. } = *form;
        let places = form.places();
        staging.copy_to(&self.arrays.view_mut(DType::I32, [places.words]));
        if let Some(times) = &mut self.times {
            times.bring(tokens, seqs);
        }
        if let Some(brought) = &mut self.brought {
            brought.bring(tokens);
        }
        self.workspace.reset();
        let words = self.arrays.view(DType::I32, [places.words]);
        let array = |place: &std::ops::Range<usize>| words.rows(place.clone());
        let tiles =
            |places: &[std::ops::Range<usize>; 2], [items, sums]: [usize; 2]| HstuTileViews {
                items: array(&places[0]).reshape([items, TILE_WORDS[0]]),
                sums: array(&places[1]).reshape([sums, TILE_WORDS[1]]),
            };
        self.rows.make(
            &self.ops,
            &StepSeqs {
                block_tables: array(&places.block_tables).reshape([seqs, table_pages]),
                live_tables: array(&places.live_tables).reshape([seqs, live_table_pages]),
                past_tokens: array(&places.past_tokens),
                live_starts: array(&places.live_starts),
                history_rows: array(&places.history_rows),
            },
            [tokens, self.layout.page_tokens, self.model.position_rows().unwrap_or(0)],
        );
        let rows = self.rows.views(tokens);
        let mut kv = HstuKv {
            layout: self.layout,
            pages: self.kv.pages_mut(),
            block_tables: array(&places.block_tables).reshape([seqs, table_pages]),
            past_tokens: array(&places.past_tokens),
            live_starts: array(&places.live_starts),
            history_rows: array(&places.history_rows),
            commit_slots: rows.commit_slots,
            spans: rows.spans,
            live_tables: array(&places.live_tables).reshape([seqs, live_table_pages]),
            row_seqs: rows.row_seqs,
            tiles: tiles(&places.tiles, form.tiles),
            candidate_tiles: tiles(&places.candidate_tiles, form.candidate_tiles),
        };
        let apart = form.has_streams.then(|| places.apart.each_ref().map(array));
        let brought = self.brought.as_ref().map(|brought| brought.views(tokens));
        let step = HstuStep {
            rows: self.tables.rows(brought, array(&places.ids), apart),
            position_rows: rows.positions,
            scored: array(&places.scored),
            times: self.times.as_ref().map(|times| times.views(tokens, seqs)),
        };
        let mut out = self.out.view_mut(DType::F32, [scored, self.model.outputs()]);
        let ctx =
            HstuStepCtx { before_pages: wait_for, ..HstuStepCtx::new(&self.ops, &self.workspace) };
        self.model.forward(ctx, step, &mut kv, out.reborrow());
        if 0 < scored && self.model.has_head() {
            logits.copy_from(0, out.as_view());
        }
    }
}

/// One move of all pages, known by the first one's id: a step waits for all of them.
fn merged(moves: &[PageMove]) -> Option<PageMove> {
    let mut all = moves.first()?.clone();
    all.pages.extend(moves[1..].iter().flat_map(|it| it.pages.iter().copied()));
    Some(all)
}

impl RankExecutor for CudaRankExecutor {
    fn start_moves(&mut self, moves: &[PageMove]) -> Result<(), Error> {
        let CudaRankExecutor { store, memory, .. } = self;
        let mut moves = moves.iter();
        let started = moves.try_for_each(|asked| store.start(asked, &mut memory.kv));
        Ok(started.inspect_err(|_| self.drain())?)
    }

    fn arrived(&mut self) -> Result<Vec<MoveId>, Error> {
        let mut arrived = std::mem::take(&mut self.arrived);
        let more = self.store.arrived(Wait::No).inspect_err(|_| self.drain())?;
        arrived.extend(more);
        Ok(arrived)
    }

    fn replace(&mut self, loaded: LoadedModel) -> Result<(), Error> {
        let memory = &mut self.memory;
        let taken = [memory.workspace.len(), memory.out.len()];
        self.shape.check(&memory.ops, &memory.layout, &loaded.model, taken)?;
        let tables = StepTables::new(&loaded.config, &loaded.tables);
        let LoadedModel { model, search, .. } = loaded;
        // What is recorded points at the weights before.
        memory.device.synchronize()?;
        self.graphs = RecordedGraphs::default();
        (memory.model, memory.tables) = (model, tables);
        if let (Some(own), Some(search)) = (&mut self.search, search) {
            own.replace(search);
        }
        Ok(())
    }

    fn run(&mut self, plan: &RankPlan, jobs: &RankJobs) -> Result<Vec<ChunkResult>, Error> {
        self.compute(plan, jobs).inspect_err(|_| self.drain())
    }

    fn time_layers(&mut self) -> Result<(), Error> {
        let (device, layers) = (&self.memory.device, self.memory.layout.layers);
        self.layers = Some(LayerMarks::new(device, layers)?);
        Ok(())
    }

    fn layer_times(&self) -> &[LayerTimes] {
        self.layers.as_ref().map_or(&[], LayerMarks::times)
    }

    fn device_us(&self) -> u64 {
        self.device_us
    }
}

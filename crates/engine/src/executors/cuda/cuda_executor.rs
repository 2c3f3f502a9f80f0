//! Runs plans on a GPU.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use terrace_cache::{KvGroup, MoveId, PageId};
use terrace_device::cuda::CudaDevice;
use terrace_kernels::{KvLayout, Ops};
use terrace_model::Decoder;
use terrace_tiers::{PageStore, PageStoreComing, Wait};

use super::captured_kind::CapturedKind;
use super::cuda_executor_shape::CudaExecutorShape;
use super::decode_graphs::DecodeGraphs;
use super::executor_memory::{ArraySet, ExecutorMemory};
use super::layer_parts;
use super::row_sampling::{RowSampling, samples_on_device};
use super::step_form::StepForm;
use super::step_staging::StepStaging;
use crate::error::Error;
use crate::executors::batch::{Batch, ReportedChunk};
use crate::executors::row_reader::{Row, RowReader};
use crate::generate::executor::{Executor, NoToken, Sampled, SampledToken, StepOutput};
use crate::generate::replay;
use crate::generate::sampling_params::SamplingParams;
use crate::generate::seq_cache::SeqCache;
use crate::generate::seq_id::SeqId;
use crate::generate::sequence::Sequences;
use crate::generate::step_plan::StepPlan;

/// One is planned while the other runs.
const MAX_UNDER_WAY: usize = 2;

pub struct CudaExecutor {
    device: Arc<CudaDevice>,
    memory: ExecutorMemory,
    graphs: DecodeGraphs,
    batch: Batch,
    /// Taken in turn; a step under way holds its own.
    staging: [StepStaging; MAX_UNDER_WAY],
    next_staging: usize,
    under_way: VecDeque<UnderWay>,
    /// Where the step started last put the ids it samples.
    sampled_rows: HashMap<SeqId, usize>,
    rows: RowReader,
    store: PageStore,
}

struct UnderWay {
    staging: usize,
    sampling: RowSampling,
    /// What the host has read already.
    output: StepOutput,
    /// The rows still to be read by the host, whose logits are in its staging buffers.
    host_rows: std::ops::Range<usize>,
    /// Chunks whose slots the host must learn, and the step's shape.
    reported: Option<(Vec<ReportedChunk>, StepForm)>,
}

impl CudaExecutor {
    /// `kinds` are the caches whose decoding steps are recorded; the first keeps every key and
    /// value as it is.
    pub fn new(
        ops: Ops,
        decoder: Decoder,
        kinds: Vec<CapturedKind>,
        store: PageStoreComing,
        shape: CudaExecutorShape,
    ) -> Result<Self, Error> {
        kinds.iter().try_for_each(|kind| prepare_slots(&ops, &kind.groups))?;
        let rows = RowReader::new(ops.workers().threads());
        let dense = SeqCache::whole(kinds[0].groups.clone());
        let dynamic_rope = decoder.spec().dynamic_rope.clone();
        let batch = Batch::new(shape.max_step_tokens, dense, dynamic_rope);
        let mut memory = ExecutorMemory::new(ops, decoder, &kinds, &shape)?;
        let device = memory.device();
        let staging = || StepStaging::new(&device, &memory);
        let staging = [staging()?, staging()?];
        let store = store.wait()?;
        let graphs = DecodeGraphs::record(&mut memory, kinds, shape.max_seqs)?;
        device.synchronize()?;
        device.reserve_arena(shape.arena_bytes)?;
        Ok(CudaExecutor {
            device,
            memory,
            graphs,
            batch,
            staging,
            next_staging: 0,
            under_way: VecDeque::with_capacity(MAX_UNDER_WAY),
            sampled_rows: HashMap::with_capacity(shape.max_seqs),
            rows,
            store,
        })
    }

    pub fn pages(&self) -> usize {
        self.memory.pages()
    }

    /// Host memory for pages that leave the device.
    pub fn store(&self) -> &PageStore {
        &self.store
    }

    pub fn kv_bytes(&self) -> usize {
        self.memory.kv_bytes()
    }

    /// Device memory besides weights and pages.
    pub fn scratch_bytes(&self) -> usize {
        self.memory.scratch_bytes()
    }

    fn launch(&mut self, plan: &StepPlan, seqs: &Sequences) -> Result<UnderWay, Error> {
        let index = self.next_staging;
        self.next_staging = (index + 1) % MAX_UNDER_WAY;
        let sampled_rows = &self.sampled_rows;
        self.batch.fill(plan, seqs, |seq| sampled_rows[&seq]);
        self.start_awaited(plan)?;
        if cfg!(debug_assertions) {
            self.memory.check(&self.batch);
        }
        let sampling = RowSampling::new(plan, seqs, self.batch.uses(), self.memory.scored_rows());
        self.sampled_rows.clear();
        let single = sampling.owners.iter().filter(|(_, rows)| rows.len() == 1);
        self.sampled_rows.extend(single.map(|(seq, rows)| (*seq, rows.start)));

        let (memory, staging) = (&mut self.memory, &mut self.staging[index]);
        let is_decoding = plan.chunks.iter().all(|chunk| chunk.tokens == 1)
            && self.batch.uses().len() == plan.chunks.len();
        let mut under_way = UnderWay {
            staging: index,
            output: StepOutput::default(),
            host_rows: 0..sampling.host.len(),
            sampling,
            reported: None,
        };
        let reported = self.batch.reported_chunks(plan, seqs);
        staging.send_copies(memory, plan);
        let sampling = &under_way.sampling;
        let rows = plan.chunks.len().max(sampling.device.len());
        let recorded = if is_decoding { self.graphs.suiting(&self.batch, rows) } else { None };
        match recorded {
            Some((graph, form)) => {
                let all = memory.kv_mut().page_bytes();
                plan.awaited.iter().for_each(|id| self.store.compute_waits(*id, all));
                staging.send(memory, ArraySet::Decoding, form, &self.batch, sampling);
                graph.launch();
                staging.fetch_logits(memory, &sampling.host, 0);
                if !reported.is_empty() {
                    staging.fetch_chosen(memory, ArraySet::Decoding, form);
                    under_way.reported = Some((reported, form.clone()));
                }
            }
            None => {
                let form = StepForm::of(&self.batch, sampling.device.len());
                staging.send(memory, ArraySet::Mixed, &form, &self.batch, sampling);
                self.launch_mixed(&mut under_way, &form, &plan.awaited)?;
                if !reported.is_empty() {
                    let staging = &mut self.staging[index];
                    staging.fetch_chosen(&mut self.memory, ArraySet::Mixed, &form);
                    under_way.reported = Some((reported, form));
                }
            }
        }
        let staging = &mut self.staging[index];
        staging.fetch_ids(&self.memory, under_way.sampling.device.len());
        staging.mark();
        Ok(under_way)
    }

    /// Begins the moves that the step waits for, some layers at a time. Slots are chosen before the
    /// first layer, by what all of them say.
    fn start_awaited(&mut self, plan: &StepPlan) -> Result<(), Error> {
        if plan.awaited.is_empty() {
            return Ok(());
        }
        let CudaExecutor { memory, store, batch, .. } = self;
        let kv = memory.kv_mut();
        let parts = layer_parts::parts(batch, kv.page_bytes());
        let (begun, _) = plan.awaited_moves();
        begun.into_iter().try_for_each(|asked| store.start_parts(asked, kv, &parts))?;
        if !layer_parts::is_dense(batch) {
            plan.awaited.iter().for_each(|id| store.compute_waits(*id, kv.page_bytes()));
        }
        Ok(())
    }

    /// Runs a step kernel by kernel. Rows are scored some at a time; when there are more, the host
    /// reads its own before the next are scored.
    fn launch_mixed(
        &mut self,
        under_way: &mut UnderWay,
        form: &StepForm,
        awaited: &[MoveId],
    ) -> Result<(), Error> {
        let CudaExecutor { memory, staging, batch, rows, device, store, .. } = self;
        let staging = &mut staging[under_way.staging];
        let wait_for = |layer: usize| {
            let bytes = layer_parts::bytes_until(batch, layer);
            awaited.iter().for_each(|id| store.compute_waits(*id, bytes));
        };
        let is_awaiting = !awaited.is_empty();
        memory.forward(ArraySet::Mixed, form, is_awaiting.then_some(&wait_for));
        let wanted = batch.uses().len();
        for first in (0..wanted).step_by(memory.scored_rows()) {
            let tile = first..wanted.min(first + memory.scored_rows());
            memory.score(tile.clone());
            let device_rows = rows_in(&under_way.sampling.device_wanted, |wanted| *wanted, &tile);
            memory.sample(ArraySet::Mixed, form, device_rows);
            let host_rows = rows_in(&under_way.sampling.host, |row| row.wanted, &tile);
            staging.fetch_logits(memory, &under_way.sampling.host[host_rows.clone()], first);
            if tile.end < wanted && !host_rows.is_empty() {
                device.synchronize()?;
                let read: Vec<Row<'_>> = under_way.sampling.host[host_rows.clone()]
                    .iter()
                    .map(|row| row.row())
                    .collect();
                let logits = staging.logits(read.len(), memory.vocab());
                rows.read(memory.ops().workers(), &read, logits, &mut under_way.output);
            }
            under_way.host_rows = host_rows;
        }
        Ok(())
    }

    /// After an error: forgets all steps, once the device has left them.
    fn drain(&mut self) {
        self.under_way.clear();
        self.store.drain();
        if let Err(error) = self.device.synchronize() {
            tracing::error!(%error, "the GPU did not recover");
        }
    }

    fn collect(&self, step: UnderWay) -> Result<StepOutput, Error> {
        let UnderWay { staging, sampling, mut output, host_rows, reported } = step;
        let staging = &self.staging[staging];
        let held = &sampling.host[host_rows];
        let read: Vec<Row<'_>> = held.iter().map(|row| row.row()).collect();
        self.rows.prepare(self.memory.ops().workers(), &read);
        staging.wait()?;
        let logits = staging.logits(read.len(), self.memory.vocab());
        self.rows.read(self.memory.ops().workers(), &read, logits, &mut output);
        if let Some((reported, form)) = reported {
            let reported = reported.into_iter().map(|ReportedChunk { seq, segment, rows }| {
                let slots = |group: usize| staging.chosen(&form, segment, group);
                (seq, replay::placements(&form.segments[segment].locations, rows, slots))
            });
            output.placements.extend(reported);
        }
        let ids = staging.ids(sampling.device.len());
        for (seq, rows) in sampling.owners {
            let tokens = ids[rows].iter().map(|&id| token(id)).collect();
            output.sampled.push(Sampled { seq, outputs: vec![tokens], prompt_logprobs: None });
        }
        Ok(output)
    }
}

impl Executor for CudaExecutor {
    fn max_under_way(&self) -> usize {
        MAX_UNDER_WAY
    }

    fn samples_on_device(&self, sampling: &SamplingParams) -> bool {
        samples_on_device(sampling)
    }

    fn gives_embeddings(&self) -> bool {
        false
    }

    fn prepare(&mut self, cache: &SeqCache) -> Result<(), Error> {
        prepare_slots(self.memory.ops(), &cache.groups)
    }

    fn start(&mut self, plan: &StepPlan, seqs: &Sequences) -> Result<(), Error> {
        assert!(self.under_way.len() < MAX_UNDER_WAY, "too many steps are under way");
        if !plan.chunks.is_empty() {
            let started = self.launch(plan, seqs);
            let step = started.inspect_err(|_| self.drain())?;
            self.under_way.push_back(step);
        }
        let CudaExecutor { memory, store, .. } = self;
        let (_, beside) = plan.awaited_moves();
        let moves = beside.into_iter().try_for_each(|asked| store.start(asked, memory.kv_mut()));
        Ok(moves.inspect_err(|_| self.drain())?)
    }

    fn finish(&mut self) -> Result<StepOutput, Error> {
        let step = self.under_way.pop_front().expect("a step is under way");
        self.collect(step).inspect_err(|_| self.drain())
    }

    fn arrived_moves(&mut self, wait: Wait) -> Result<Vec<MoveId>, Error> {
        let arrived = self.store.arrived(wait);
        Ok(arrived.inspect_err(|_| self.drain())?)
    }

    fn read_pages(&mut self, pages: &[PageId]) -> Result<Vec<Vec<u8>>, Error> {
        let bytes = |page| self.memory.read_pages(std::slice::from_ref(page));
        pages.iter().map(bytes).collect()
    }
}

/// Loads the kernels of groups whose pages are slots, and takes the memory that they work in.
fn prepare_slots(ops: &Ops, groups: &[KvGroup]) -> Result<(), Error> {
    for group in groups {
        if let KvLayout::Slots(layout) = &group.layout {
            ops.prepare_slots(layout)?;
        }
    }
    Ok(())
}

/// The device says -1 when no logit is a number.
fn token(id: i32) -> Result<SampledToken, NoToken> {
    let id = id.try_into().map_err(|_| "no logit is a number".to_owned())?;
    Ok(SampledToken { id, logprobs: None })
}

/// Which of `rows`, ordered by the wanted row they belong to, belong to the rows in `tile`.
fn rows_in<T>(
    rows: &[T],
    wanted: impl Fn(&T) -> usize,
    tile: &std::ops::Range<usize>,
) -> std::ops::Range<usize> {
    let before = |end: usize| rows.partition_point(|row| wanted(row) < end);
    before(tile.start)..before(tile.end)
}

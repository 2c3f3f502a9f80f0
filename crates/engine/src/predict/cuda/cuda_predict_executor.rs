//! Computes batches on a GPU.
//!
//! A batch is one recorded graph: rows go from the hot caches straight into the network, and keys,
//! features and results are read and written in pinned host memory. Where a key was not in a cache,
//! the batch is computed again over rows that were looked up as the tables are configured.

use std::sync::Arc;
use std::time::Instant;

use terrace_device::cuda::{CudaDevice, CudaEvent};
use terrace_device::{Device, Workspace};
use terrace_embedding::{CudaLookup, HotCache, MissingRows, ServedTable};
use terrace_kernels::{
    CudaHotCache, GatherOps, Ops, POOLED_DIM_MOST, PoolCachedArgs, PoolRowsArgs,
};
use terrace_model::ctr::{CtrCtx, CtrModel, CtrNetwork, CtrWeights};

use super::predict_form::{PredictForm, padded};
use super::step_staging::{StepStaging, TableViews};
use crate::error::Error;
use crate::predict::predict_executor::{Computed, PredictExecutor};
use crate::predict::predict_tables::PredictTables;
use crate::predict::request_shape::RequestShape;
use crate::predict::samples::Samples;
use crate::recorded_graphs::{Recorded, RecordedGraphs};

pub struct CudaPredictExecutor {
    memory: StepMemory,
    network: Arc<CtrNetwork>,
    graphs: RecordedGraphs<PredictForm>,
    max_samples: usize,
    /// For keys that are not in the caches.
    lookup: CudaLookup,
    done: CudaEvent,
    /// Batches until caches are trusted again, after one that missed.
    distrust: u32,
}

/// What a batch reads and writes.
struct StepMemory {
    device: Arc<CudaDevice>,
    ops: Ops,
    /// On a stream of its own: rows are pooled beside what needs none.
    gather: GatherOps,
    /// Where rows may begin, and when they are there.
    forked: CudaEvent,
    pooled: CudaEvent,
    model: CtrModel,
    workspace: Workspace,
    staging: StepStaging,
    tables: PredictTables,
    /// Of each table, its hot cache on this GPU.
    caches: Vec<Option<usize>>,
    /// Whether rows can go straight from all of them.
    can_pool: bool,
}

/// A batch that missed is followed by others that do: so many are looked up without a trial.
const DISTRUSTED: u32 = 15;

impl CudaPredictExecutor {
    /// On the stream of the ops' device.
    pub fn new(
        ops: Ops,
        network: &Arc<CtrNetwork>,
        weights: &CtrWeights,
        tables: PredictTables,
        shape: &RequestShape,
    ) -> Result<Self, Error> {
        let on = ops.device();
        let Device::Cuda(device) = &on else { panic!("not the ops of a GPU") };
        let device = Arc::clone(device);
        let model = CtrModel::place(&ops, network, weights)?;
        let workspace = Workspace::new(&on, model.workspace_bytes(&ops, shape.max_samples))?;
        let caches: Vec<Option<usize>> =
            tables.tables.iter().map(|table| cache_on(table, &device)).collect();
        let is_pooled = |table: &Arc<ServedTable>| table.spec().dim <= POOLED_DIM_MOST;
        let can_pool = caches.iter().all(Option::is_some) && tables.tables.iter().all(is_pooled);
        let keys = shape.tables.iter().map(|it| it.keys_most * shape.max_samples).max();
        let dims = tables.tables.iter().map(|table| table.spec().dim).max();
        let beside = CudaDevice::open(device.info())?;
        Ok(CudaPredictExecutor {
            lookup: CudaLookup::new(&device, keys.unwrap_or(1), dims.unwrap_or(1))?,
            done: device.event()?,
            memory: StepMemory {
                gather: GatherOps::new(&beside)?,
                forked: device.event()?,
                pooled: beside.event()?,
                staging: StepStaging::new(&device, shape)?,
                device,
                ops,
                model,
                workspace,
                tables,
                caches,
                can_pool,
            },
            network: Arc::clone(network),
            graphs: RecordedGraphs::default(),
            max_samples: shape.max_samples,
            distrust: 0,
        })
    }

    /// Whether all keys were in the caches.
    fn run_cached(&mut self, form: &PredictForm) -> Result<bool, Error> {
        let CudaPredictExecutor { memory, graphs, .. } = self;
        memory.begin()?;
        match graphs.of(form) {
            Recorded::First => {
                memory.forward_cached(form)?;
                memory.gather.device().synchronize()?;
            }
            Recorded::Graph(graph) => graph.launch(),
            Recorded::Record => {
                let device = Arc::clone(&memory.device);
                let mut launched = Ok(());
                let graph = device.capture(|| launched = memory.forward_cached(form))?;
                launched?;
                memory.gather.device().synchronize()?;
                graphs.keep(form, graph).launch();
            }
        }
        self.done.record();
        self.done.wait()?;
        Ok(!self.memory.staging.missed().contains(&true))
    }

    /// With rows that are looked up as the tables are configured; when they were together.
    fn run_looked_up(&mut self, samples: &Samples) -> Result<Instant, Error> {
        let CudaPredictExecutor { memory, lookup, .. } = self;
        let StepMemory { ops, model, workspace, staging, tables, caches, .. } = memory;
        workspace.reset();
        let mut step = model.step(CtrCtx { ops, workspace }, samples.count);
        for (at, (keys, layer)) in samples.tables.iter().zip(&model.inputs().tables).enumerate() {
            let table = &tables.tables[at];
            let found = match caches[at] {
                Some(cache) => {
                    lookup.look_up(table, cache, keys.keys(), MissingRows::AsConfigured)?
                }
                None => lookup.look_up_levels(table, keys.keys())?,
            };
            let args = PoolRowsArgs {
                rows: found.unique_rows,
                index: found.inverse,
                offsets: staging.table(at).offsets(samples.count, keys.is_one_hot()),
                combiner: layer.combiner,
            };
            ops.pool_rows(&args, step.pooled(at));
        }
        let input = Instant::now();
        let (dense, out) = staging.ends(samples.count);
        step.run(dense, out);
        self.done.record();
        self.done.wait()?;
        Ok(input)
    }

    /// After an error: nothing runs any more, once the device has left it.
    fn drain(&self) {
        if let Err(error) = self.memory.device.synchronize() {
            tracing::error!(%error, "the GPU did not recover");
        }
    }

    fn compute(&mut self, samples: &Samples) -> Result<Computed, Error> {
        let count = match self.memory.model.mixes_samples() {
            true => samples.count,
            false => padded(samples.count).min(self.max_samples),
        };
        let begun = Instant::now();
        let StepMemory { staging, ops, .. } = &mut self.memory;
        let form = staging.write(ops.workers(), samples, count);
        let staged = Instant::now();
        let trusts = self.memory.can_pool && self.distrust == 0;
        if trusts && self.run_cached(&form)? {
            self.memory.count_hits(samples, begun);
            return Ok(Computed { input: staged, compute: Instant::now() });
        }
        self.distrust = if trusts { DISTRUSTED } else { self.distrust.saturating_sub(1) };
        let input = self.run_looked_up(samples)?;
        Ok(Computed { input, compute: Instant::now() })
    }
}

impl StepMemory {
    /// Before a launch over the caches.
    fn begin(&mut self) -> Result<(), Error> {
        for at in 0..self.caches.len() {
            let now =
                self.gather.begin_query(cuda_cache(&self.tables.tables[at], self.caches[at]))?;
            self.staging.table(at).begin(now);
        }
        Ok(())
    }

    fn forward_cached(&mut self, form: &PredictForm) -> Result<(), Error> {
        let StepMemory { device, ops, gather, model, workspace, staging, tables, caches, .. } =
            self;
        workspace.reset();
        let mut step = model.step(CtrCtx { ops, workspace }, form.samples);
        self.forked.record();
        gather.device().wait_for(&self.forked);
        let (dense, _) = staging.ends(form.samples);
        step.begin(dense);
        for (at, layer) in model.inputs().tables.iter().enumerate() {
            let table = &tables.tables[at];
            let TableViews { keys, offsets, now, missed } =
                staging.table(at).views(form.samples, form.tables[at]);
            gather.pool_cached(
                cuda_cache(table, caches[at]),
                PoolCachedArgs {
                    keys,
                    offsets,
                    combiner: layer.combiner,
                    default_value: table.spec().default_value,
                    now,
                    missed,
                    out: step.pooled(at),
                },
            )?;
        }
        self.pooled.record();
        device.wait_for(&self.pooled);
        let (dense, out) = staging.ends(form.samples);
        step.run(dense, out);
        Ok(())
    }

    /// All keys were there.
    fn count_hits(&self, samples: &Samples, begun: Instant) {
        for (table, keys) in self.tables.tables.iter().zip(&samples.tables) {
            table.count_cached(keys.keys().len(), begun);
        }
    }
}

impl PredictExecutor for CudaPredictExecutor {
    fn run(&mut self, samples: &Samples, out: &mut [f32]) -> Result<Computed, Error> {
        let computed = self.compute(samples).inspect_err(|_| self.drain())?;
        self.memory.staging.results(out);
        Ok(computed)
    }

    fn replace_weights(&mut self, safetensors: &[u8]) -> Result<(), Error> {
        let weights = CtrWeights::from_safetensors(&self.network, safetensors)?;
        let model = CtrModel::place(&self.memory.ops, &self.network, &weights)?;
        // What is recorded points at the weights before.
        self.memory.device.synchronize()?;
        self.graphs = RecordedGraphs::default();
        self.memory.model = model;
        Ok(())
    }
}

/// The number of a table's hot cache on a GPU.
fn cache_on(table: &ServedTable, device: &CudaDevice) -> Option<usize> {
    let is_there = |cache: &HotCache| match cache {
        HotCache::Cuda(cache) => cache.ordinal() == device.info().ordinal,
        HotCache::Host(_) => false,
    };
    table.caches().iter().position(|cache| is_there(cache.cache()))
}

/// Of a table that has one.
fn cuda_cache(table: &ServedTable, cache: Option<usize>) -> &CudaHotCache {
    match cache.map(|cache| table.caches()[cache].cache()) {
        Some(HotCache::Cuda(cache)) => cache.cache(),
        _ => panic!("{} has no hot cache on this GPU", table.spec().tag),
    }
}

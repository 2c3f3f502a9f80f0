//! An engine on its device: chooses the device and takes all memory, once.

use std::sync::Arc;
use std::thread::available_parallelism;

use terrace_cache::policy::SlotShape;
use terrace_cache::{KvGroup, PrefixSeed};
use terrace_device::cuda::{CudaDevice, CudaInfo, PinnedPages};
use terrace_device::{DType, Device};
use terrace_kernels::{
    ArithmeticClass, Compute, CpuLevel, CpuOptions, CudaOptions, KvLayout, Ops, PageLayout,
    RowFormat, SlotLayout, SlotNotes, WeightFormat, max_scored_slots,
};
use terrace_model::{
    AttentionSpec, Decoder, DecoderSpec, DecoderTensors, LayerGroup, ModelFingerprint,
    PlacedAdapter, WeightsHash, WeightsHashing, layer_locations,
};

use terrace_tiers::{DiskHandles, GuardedTier, HandleThreads, PageStore, TierThreads};

use crate::error::Error;
use crate::executors::cpu_executor::{CpuExecutor, ExecutorShape};
use crate::executors::cuda::{CapturedKind, CudaExecutor, CudaExecutorShape};
use crate::generate::engine::Engine;
use crate::generate::engine_config::EngineConfig;
use crate::generate::executor::Executor;
use crate::generate::scheduler::SchedulerConfig;
use crate::kv_handles::HandleIdentity;
use crate::setup::context_length::for_context;
use crate::setup::device_choice::{DeviceChoice, why_no_gpu};
use crate::setup::inference_config::InferenceConfig;
use crate::setup::kv_cache::{CacheMaker, CacheMakerConfig};
use crate::setup::kv_tiers::{LevelSizes, LowerLevels, free_host_bytes};
use crate::setup::memory_report::MemoryReport;
use crate::trace::{EngineTrace, TraceFile};

/// An engine without text.
pub struct EngineSetup {
    pub engine: Engine,
    pub memory: MemoryReport,
    /// What changes the model's weights, or is computed beside them.
    pub adapter: Option<PlacedAdapter>,
    pub device: Device,
    /// Most tokens a prompt and its output may have together.
    pub context_tokens: usize,
    pub caches: Arc<CacheMaker>,
    /// The levels below host memory, for metrics.
    pub tiers: Vec<Arc<GuardedTier>>,
    pub(crate) identity: HandleIdentity,
    /// Handles that are files.
    pub(crate) handles: Option<Arc<DiskHandles>>,
}

/// Where a decoder's weights come from.
pub enum WeightSource {
    Files {
        tensors: DecoderTensors,
        /// Done by the time that they are placed, or soon after.
        hash: WeightsHashing,
    },
    /// Numbers that mean nothing, made on the device: for measurements.
    Random(WeightFormat),
}

/// Of the host memory that is free, what is pinned for pages that leave a GPU where no budget is
/// given: one part of so many.
const PINNED_SHARE: usize = 8;

/// What the kernels that run on every supported GPU are compiled for: Ampere.
const PORTABLE: (u32, u32) = (8, 0);

/// Steps of waiting that count as one priority more: a few seconds of decoding.
const AGING_STEPS: u32 = 256;

/// Moves beside those of an engine, for measurements.
pub struct AddedMoves {
    /// Pages of the device, the last ones, and as many of the store, that the engine leaves to it.
    pub pages: usize,
    pub add: Box<AddMoves>,
}

/// Puts something between the engine and its executor, given that, and all pages of the device and
/// of the store.
pub type AddMoves = dyn FnOnce(Box<dyn Executor>, usize, usize) -> Box<dyn Executor>;

impl EngineSetup {
    /// `progress` is called after each layer that is brought to the device.
    pub fn new(
        spec: DecoderSpec,
        weights: WeightSource,
        config: &InferenceConfig,
        progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let add: Box<AddMoves> = Box::new(|executor, _, _| executor);
        Self::with_added_moves(spec, weights, config, progress, AddedMoves { pages: 0, add })
    }

    /// As [`new`](Self::new), with moves beside those of the engine.
    pub fn with_added_moves(
        spec: DecoderSpec,
        weights: WeightSource,
        config: &InferenceConfig,
        progress: impl FnMut(),
        added: AddedMoves,
    ) -> Result<Self, Error> {
        let (requested, running) = on_device(spec, weights, config, progress)?;
        let Requested {
            spec,
            groups,
            longest,
            caches,
            max_step_tokens,
            own_seq_pages,
            page_bytes,
            ..
        } = requested;
        let sizes = running.level_sizes(page_bytes, added.pages);
        let weights = running.weights.wait();
        // What the pages cannot hold is no context either, unless tokens leave them.
        let held = if own_seq_pages.is_some() { longest } else { running.memory.held_tokens() };
        let context_tokens = longest.min(held);
        let adapter = running.adapter.as_ref().map(|adapter| &adapter.hash);
        let fingerprint = ModelFingerprint::new(&weights, adapter, &spec);
        let trace = config.trace.as_deref().map(TraceFile::create).transpose()?;
        let LowerLevels { tiers, handles } = config.kv_tiers.open_lower(page_bytes)?;
        let caches = Arc::new(caches);
        let model = *fingerprint.as_bytes();
        let arithmetic = running.arithmetic.to_bytes().to_vec();
        let identity = HandleIdentity::new(model, arithmetic, page_bytes, &groups, &spec, &caches);
        let engine_config = EngineConfig {
            scheduler: scheduler_config(config, max_step_tokens),
            kv_groups: groups,
            pages: sizes.pages,
            store_pages: sizes.store_pages,
            tiers: config.kv_tiers.config(sizes, &tiers),
            prefix_seed: PrefixSeed::new(fingerprint.as_bytes(), &running.arithmetic),
            dynamic_rope: spec.dynamic_rope.clone(),
            vocab: spec.vocab,
            context_tokens,
            max_input_len: config.max_input_len,
        };
        let levels = LowerLevels { tiers, handles };
        let Running { executor, store, memory, adapter, device, .. } = running;
        let executor = (added.add)(executor, memory.kv_pages, memory.store_pages);
        let mut engine = engine_over(&levels, executor, &store, model, engine_config)?;
        if let Some(seed) = config.page_order_seed {
            engine.shuffle_pages(seed);
        }
        let LowerLevels { tiers, handles } = levels;
        if let Some(file) = trace {
            let names = tiers.iter().map(|tier| tier.name().to_owned()).collect();
            engine.trace_to(EngineTrace::new(file, page_bytes, names));
        }
        Ok(EngineSetup {
            engine,
            memory,
            adapter,
            device,
            context_tokens,
            caches,
            tiers,
            identity,
            handles,
        })
    }
}

fn scheduler_config(config: &InferenceConfig, max_step_tokens: usize) -> SchedulerConfig {
    SchedulerConfig {
        max_step_tokens,
        max_seqs: config.max_batch_size,
        max_waiting: config.max_waiting,
        aging_steps: AGING_STEPS,
    }
}

/// Chooses the device and takes its memory.
fn on_device(
    spec: DecoderSpec,
    weights: WeightSource,
    config: &InferenceConfig,
    progress: impl FnMut(),
) -> Result<(Requested, Running), Error> {
    config.check()?;
    let spec = for_context(spec, config)?;
    let gpu = config.device.find()?;
    if let (DeviceChoice::Auto, Some(why)) = (config.device, why_no_gpu()) {
        tracing::info!("computing on the CPU: {why}");
    }
    config.check_device(gpu.is_some())?;
    let requested = Requested::new(spec, config, gpu.is_some())?;
    let running = match gpu {
        Some(gpu) => on_cuda(&requested, weights, &gpu, config, progress)?,
        None => on_cpu(&requested, weights, config, progress)?,
    };
    Ok((requested, running))
}

/// An engine with threads for its lower levels.
fn engine_over(
    levels: &LowerLevels,
    executor: Box<dyn Executor>,
    store: &Arc<PinnedPages>,
    model: [u8; 32],
    config: EngineConfig,
) -> Result<Engine, Error> {
    let no_thread = |error: std::io::Error| Error::Threads(error.to_string());
    let threads = TierThreads::start(&levels.tiers, store, model).map_err(no_thread)?;
    let engine = Engine::with_tiers(executor, Box::new(threads), config)?;
    let Some(handles) = &levels.handles else { return Ok(engine) };
    let threads = HandleThreads::start(handles, store).map_err(no_thread)?;
    Ok(engine.with_handles(Box::new(threads)))
}

/// What is asked for, before a device says how much of it fits.
struct Requested {
    spec: DecoderSpec,
    /// Of each group of layers where every key and value is kept as it is.
    layouts: Vec<PageLayout>,
    groups: Vec<KvGroup>,
    /// What each layer stores in a slot.
    slot_shapes: Vec<SlotShape>,
    /// A page holds `block_size` tokens of any group as they are, and a slot of any cache.
    page_bytes: usize,
    /// Tokens of the longest request.
    longest: usize,
    /// Pages that `max_batch_size` of the longest requests need.
    pages: usize,
    /// Tokens of a step: a policy's chunk fits beside a row of every other sequence.
    max_step_tokens: usize,
    threads: usize,
    caches: CacheMaker,
    /// Pages of a sequence whose cache is the server's own, where that evicts.
    own_seq_pages: Option<usize>,
}

impl Requested {
    fn new(spec: DecoderSpec, config: &InferenceConfig, is_gpu: bool) -> Result<Self, Error> {
        let dense = spec.kv_groups(config.block_size, config.page_dtype());
        let layouts: Vec<PageLayout> = dense.iter().map(|group| group.layout).collect();
        let slot_shapes = slot_shapes(&dense);
        let groups: Vec<KvGroup> = dense
            .into_iter()
            .map(|LayerGroup { layers, layout, window }| {
                let layout = match spec.dynamic_rope {
                    None => KvLayout::Dense(layout),
                    Some(_) => KvLayout::Slots(plain_slots(&layout)),
                };
                KvGroup { layers, layout, window }
            })
            .collect();
        let longest = config.max_input_len.saturating_add(config.max_output_len);
        let longest = longest.min(spec.context_tokens);
        let seqs = config.max_batch_size;
        let own_cache = config.own_cache();
        // Random sizes are up to half longer, and a chunk may be extended by a few tokens. None is
        // longer than its sequence, however large a chunk size is given.
        let extended = |size: usize| size.saturating_add(size / 2).saturating_add(4);
        let longest_chunk = own_cache.chunk_size.map_or(1, extended).min(longest);
        let max_step_tokens = config.max_step_tokens.max(longest_chunk.saturating_add(seqs));
        let largest = largest_slots(&slot_shapes).map(|layout| layout.page_bytes());
        let page_bytes = groups.iter().map(|group| group.layout.page_bytes()).chain(largest).max();
        let page_bytes = page_bytes.expect("a model has layers");
        let caches = CacheMaker::new(
            CacheMakerConfig {
                layers: slot_shapes.clone(),
                page_bytes,
                requested: own_cache,
                context_tokens: longest,
                chunk_tokens_max: max_step_tokens.saturating_sub(seqs).max(1),
                scored_slots_max: scored_slots_max(&spec),
                runs_own_scores: !is_gpu,
            },
            config.policies.clone(),
        )?;
        let own = caches
            .default_groups()?
            .map(|own| own.iter().map(|(group, slots)| group.pages_for(*slots)).sum::<usize>());
        let dense = groups.iter().map(|group| group.pages_for(longest)).sum();
        let pages = own.unwrap_or(dense).saturating_mul(seqs);
        let evicts = caches.default_evicts()?;
        let threads = match config.threads {
            Some(threads) => threads,
            None => available_parallelism().map_or(1, usize::from),
        };
        Ok(Requested {
            spec,
            layouts,
            groups,
            slot_shapes,
            page_bytes,
            longest,
            pages,
            max_step_tokens,
            threads,
            own_seq_pages: own.filter(|_| evicts),
            caches,
        })
    }

    /// Tokens of a page in each group.
    fn page_tokens(&self) -> Vec<usize> {
        self.groups.iter().map(KvGroup::page_tokens).collect()
    }

    /// Kinds of caches that most requests have: all as it is, and the server's own.
    fn captured_kinds(&self) -> Result<Vec<CapturedKind>, Error> {
        let spec = &self.spec;
        let read_pairs = spec.dynamic_rope.as_ref().map_or(0, |_| spec.ropes[0].inv_freq.len());
        let dense = CapturedKind {
            groups: self.groups.clone(),
            table_pages: self.groups.iter().map(|group| group.pages_for(self.longest)).collect(),
            rerotates_keys: false,
            read_pairs,
        };
        let rerotates_keys = self.caches.default_rerotates_keys()?;
        let own = self.caches.default_groups()?.map(|groups| {
            let pages = |(group, slots): &(KvGroup, usize)| group.pages_for(*slots);
            let table_pages = groups.iter().map(pages).collect();
            CapturedKind {
                groups: groups.into_iter().map(|(group, _)| group).collect(),
                table_pages,
                rerotates_keys,
                read_pairs,
            }
        });
        Ok([dense].into_iter().chain(own).collect())
    }

    /// Pages of the longest sequence, as it is or in the largest slots, some more where layers of
    /// these have different lengths.
    fn seq_pages(&self) -> usize {
        let slots = largest_slots(&self.slot_shapes).map(|layout| {
            let page_slots = layout.fitting(self.page_bytes).map_or(1, |layout| layout.page_slots);
            self.longest.div_ceil(page_slots)
        });
        let dense = self.groups.iter().map(|group| group.pages_for(self.longest));
        dense.sum::<usize>().max(slots.sum()) + self.spec.layers.len()
    }

    /// Pages of the store; `default` bytes where no budget is given.
    fn store_pages(&self, config: &InferenceConfig, default: usize) -> usize {
        config.kv_tiers.host_bytes.unwrap_or(default) / self.page_bytes
    }

    /// The requested pages, or as many as fit into `bytes`.
    fn pages_in(&self, bytes: Option<usize>) -> Result<usize, Error> {
        let Some(bytes) = bytes else { return Ok(self.pages) };
        let (page_bytes, least) = (self.page_bytes, self.groups.len());
        match bytes / page_bytes {
            fitting if fitting < least => {
                Err(Error::KvMemoryTooSmall { bytes, page_bytes, pages: least })
            }
            fitting => Ok(fitting.min(self.pages)),
        }
    }
}

/// Most slots of a cache with scores, in whichever layer has room for the fewest.
fn scored_slots_max(spec: &DecoderSpec) -> usize {
    let most = spec.layers.iter().map(|layer| {
        let AttentionSpec::GroupedQuery(attention) = &layer.attention;
        max_scored_slots(attention.heads, attention.kv_heads)
    });
    most.min().expect("a model has layers")
}

/// Keys and values that are stored as they are have the pages' type; where pages are fp8, f16.
fn slot_shape(layout: &PageLayout) -> SlotShape {
    let PageLayout { kv_heads, key_dim, value_dim, dtype, .. } = *layout;
    let plain = if dtype.bytes() == 1 { DType::F16 } else { dtype };
    SlotShape { kv_heads, key_dim, value_dim, plain }
}

/// Of each layer.
fn slot_shapes(groups: &[LayerGroup]) -> Vec<SlotShape> {
    let locations = layer_locations(groups.iter().map(|group| &group.layers[..]));
    locations.iter().map(|location| slot_shape(&groups[location.group].layout)).collect()
}

/// Every token of such pages as it is, in a slot of its own.
fn plain_slots(layout: &PageLayout) -> SlotLayout {
    let PageLayout { layers, page_tokens, .. } = *layout;
    plain_layout(&slot_shape(layout), layers, page_tokens)
}

/// For each shape of layers, a page with one slot of the cache whose slots are largest.
fn largest_slots(shapes: &[SlotShape]) -> impl Iterator<Item = SlotLayout> {
    let firsts = shapes.iter().enumerate().filter(|(i, shape)| !shapes[..*i].contains(shape));
    firsts.map(|(_, shape)| {
        let layers = shapes.iter().filter(|other| *other == shape).count();
        let notes = SlotNotes { scores: true, value_norms: true, errors: true };
        SlotLayout { notes, ..plain_layout(shape, layers, 1) }
    })
}

fn plain_layout(shape: &SlotShape, layers: usize, page_slots: usize) -> SlotLayout {
    let SlotShape { kv_heads, key_dim, value_dim, plain } = *shape;
    let plain = RowFormat::plain(plain).expect("slots are of a plain type");
    SlotLayout {
        layers,
        kv_heads,
        page_slots,
        key_dim,
        value_dim,
        keys: plain,
        values: plain,
        notes: SlotNotes::default(),
    }
}

struct Running {
    executor: Box<dyn Executor>,
    /// Host memory for pages that leave the device.
    store: Arc<PinnedPages>,
    memory: MemoryReport,
    adapter: Option<PlacedAdapter>,
    device: Device,
    weights: WeightsHashing,
    arithmetic: ArithmeticClass,
}

impl Running {
    /// What is left of its pages beside `added` ones.
    fn level_sizes(&self, page_bytes: usize, added: usize) -> LevelSizes {
        LevelSizes {
            pages: self.memory.kv_pages.saturating_sub(added),
            store_pages: self.memory.store_pages.saturating_sub(added),
            page_bytes,
            is_gpu: matches!(self.device, Device::Cuda(_)),
        }
    }
}

fn on_cpu(
    requested: &Requested,
    weights: WeightSource,
    config: &InferenceConfig,
    progress: impl FnMut(),
) -> Result<Running, Error> {
    let ops = cpu_ops(requested.threads, config.cpu_compute())?;
    let arithmetic = ops.arithmetic_class();
    let (decoder, weights) = decoder(requested, weights, &ops, progress)?;
    let pages = requested.pages_in(config.kv_memory_bytes)?;
    let shape = ExecutorShape {
        max_step_tokens: requested.max_step_tokens,
        max_seqs: config.max_batch_size,
        pages,
        page_bytes: requested.page_bytes,
    };
    let store_pages = requested.store_pages(config, pages * requested.page_bytes / 4);
    let store = PageStore::begin(&Device::Cpu, requested.page_bytes, store_pages)?.wait()?;
    let host_pages = Arc::clone(store.pages());
    let weight_bytes = decoder.weight_bytes();
    let step_weight_bytes = decoder.step_weight_bytes();
    let adapter = decoder.adapter().cloned();
    let executor = CpuExecutor::new(ops, decoder, requested.groups.clone(), store, shape)?;
    let taken = executor.memory_taken();
    let memory = MemoryReport {
        device: "cpu".into(),
        weight_bytes,
        step_weight_bytes,
        kv_bytes: taken.kv_bytes,
        kv_pages: pages,
        store_pages,
        page_tokens: requested.page_tokens(),
        seq_pages: requested.own_seq_pages,
        longest_tokens: requested.longest,
        scratch_bytes: taken.scratch_bytes,
        threads: requested.threads,
    };
    let executor = Box::new(executor);
    let (store, device) = (host_pages, Device::Cpu);
    Ok(Running { executor, store, memory, adapter, device, weights, arithmetic })
}

fn cpu_ops(threads: usize, compute: Compute) -> Result<Ops, Error> {
    if CpuLevel::amx_is_refused() {
        tracing::warn!("the operating system keeps AMX from us; prompts will be slower");
    }
    Ok(Ops::cpu(CpuOptions { threads, level: None, compute })?)
}

fn on_cuda(
    requested: &Requested,
    weights: WeightSource,
    gpu: &CudaInfo,
    config: &InferenceConfig,
    progress: impl FnMut(),
) -> Result<Running, Error> {
    let mut gpu = gpu.clone();
    if config.use_cuda_kernel == Some(false) {
        gpu.compute_capability = PORTABLE;
    }
    let share = gpu.memory_bytes as f64 * f64::from(config.gpu_memory_fraction);
    let device = CudaDevice::open_share(&gpu, share as usize)?;
    let location = Device::Cuda(Arc::clone(&device));
    let ops = Ops::cuda(CudaOptions {
        device,
        activation: config.gpu_activation(),
        libs: config.cuda_libs.clone(),
        threads: requested.threads,
        deterministic: config.deterministic,
        portable_chunks: false,
        layouts: requested.layouts.clone(),
    })?;
    let arithmetic = ops.arithmetic_class();
    // Pinning takes a while: it goes on while weights are brought to the device.
    let pinned = (free_host_bytes() / PINNED_SHARE).min(requested.pages * requested.page_bytes);
    let store_pages = requested.store_pages(config, pinned);
    let store = PageStore::begin(&location, requested.page_bytes, store_pages)?;
    let (decoder, weights) = decoder(requested, weights, &ops, progress)?;
    let weight_bytes = decoder.weight_bytes();
    let step_weight_bytes = decoder.step_weight_bytes();
    let adapter = decoder.adapter().cloned();
    let shape = CudaExecutorShape {
        max_step_tokens: requested.max_step_tokens,
        max_seqs: config.max_batch_size,
        seq_pages: requested.seq_pages(),
        pages: requested.pages_in(config.kv_memory_bytes)?,
        least_pages: requested.groups.len(),
        page_bytes: requested.page_bytes,
        arena_bytes: config.gpu_arena_bytes,
    };
    let executor = CudaExecutor::new(ops, decoder, requested.captured_kinds()?, store, shape)?;
    let host_pages = Arc::clone(executor.store().pages());
    let memory = MemoryReport {
        device: format!("cuda:{} {}", gpu.ordinal, gpu.name),
        weight_bytes,
        step_weight_bytes,
        kv_bytes: executor.kv_bytes(),
        kv_pages: executor.pages(),
        store_pages,
        page_tokens: requested.page_tokens(),
        seq_pages: requested.own_seq_pages,
        longest_tokens: requested.longest,
        scratch_bytes: executor.scratch_bytes(),
        threads: requested.threads,
    };
    let executor = Box::new(executor);
    let (store, device) = (host_pages, location);
    Ok(Running { executor, store, memory, adapter, device, weights, arithmetic })
}

fn decoder(
    requested: &Requested,
    weights: WeightSource,
    ops: &Ops,
    progress: impl FnMut(),
) -> Result<(Decoder, WeightsHashing), Error> {
    let spec = requested.spec.clone();
    Ok(match weights {
        WeightSource::Files { tensors, hash } => {
            (Decoder::place(spec, tensors, ops, progress)?, hash)
        }
        WeightSource::Random(format) => {
            let decoder = Decoder::random(spec, format, ops, progress)?;
            (decoder, WeightsHash::of_random(format).into())
        }
    })
}

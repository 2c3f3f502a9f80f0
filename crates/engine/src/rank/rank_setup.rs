//! From a model to an engine that ranks.

use std::sync::Arc;

use terrace_cache::users::UserCacheLimits;
use terrace_device::cuda::{CudaDevice, CudaInfo, PinnedPages};
use terrace_device::{DType, Device};
use terrace_kernels::{Compute, CpuOptions, CudaOptions, Ops, PageLayout};
use terrace_tiers::{PageStore, TierThreads};

use super::cpu_rank_executor::CpuRankExecutor;
use super::cuda::CudaRankExecutor;
use super::executor_parts::{ExecutorParts, RankShape};
use super::loaded_model::LoadedModel;
use super::rank_config::RankConfig;
use super::rank_engine::{RankEngine, RankTiers};
use super::rank_executor::RankExecutor;
use super::rank_front::{PageFormat, RankFront};
use super::rank_handle::RankHandle;
use super::rank_scheduler::SchedulerLimits;
use super::rank_source::RankSource;
use super::rank_trace::RankTrace;
use super::step_tables::StepTables;
use crate::error::Error;
use crate::setup::kv_tiers::{KvTiers, LevelSizes, LowerLevels, free_host_bytes};
use crate::trace::TraceFile;

pub struct RankSetup<'a> {
    pub source: RankSource<'a>,
    pub config: RankConfig,
}

/// Of the host memory that is free, what is pinned for pages that leave a GPU where no budget is
/// given: one part of so many.
const PINNED_SHARE: usize = 8;
/// Of the device memory that is left, what pages may take; the rest is for steps.
const PAGES_SHARE: f64 = 0.85;
/// Bytes of pages on a CPU where nothing is said.
const CPU_KV_BYTES: usize = 1 << 30;
/// Of users that are on disk or in Redis alone, ids that are known here: 8 bytes each.
const KNOWN_BELOW_TOKENS: usize = 32 << 20;
/// How long a request waits for pages of disk and Redis where nothing is said.
const WAIT_MS: u64 = 250;

impl RankSetup<'_> {
    /// Reads the weights and starts the engine on a thread of its own.
    pub fn start(self) -> Result<RankHandle, Error> {
        let config = self.config.clone();
        let (engine, front) = self.build()?;
        Ok(RankHandle::spawn(engine, front, config))
    }

    /// As [`start`](Self::start), for who steps the engine.
    pub fn build(self) -> Result<(RankEngine, RankFront), Error> {
        let RankSetup { source, config } = self;
        let trace = config.trace.as_deref().map(TraceFile::create).transpose()?;
        let gpu = config.device.find()?;
        let ops = ops(&config, gpu.as_ref())?;
        let loaded = LoadedModel::load(&source, &ops, config.residence())?;
        let computed = if config.f32 { DType::F32 } else { DType::Bf16 };
        let dtype = config.kv_dtype.unwrap_or(computed);
        let layout = loaded.model.stack().page_layout(config.page_tokens, dtype);
        let format = PageFormat {
            name: config.name.clone(),
            arithmetic: ops.arithmetic_class().to_bytes().to_vec(),
            layout: format!("{layout:?}"),
        };
        let front = RankFront::new(&loaded, &config, format, 0);
        let page_bytes = layout.page_bytes();
        let pages = pages(&config, &ops.device(), &front, &layout)?;
        let store_pages = store_pages(&config.tiers, pages, page_bytes, gpu.is_some());
        let store = PageStore::begin(&ops.device(), page_bytes, store_pages)?.wait()?;
        let host = Arc::clone(store.pages());
        let levels = config.tiers.open_lower(page_bytes)?;
        let sizes = LevelSizes { pages, store_pages, page_bytes, is_gpu: gpu.is_some() };
        let limits = limits(&config, sizes, &levels, loaded.model.outputs());
        let shape = RankShape {
            max_step_tokens: config.max_step_tokens,
            max_users: config.max_users,
            max_history_tokens: front.max_history_tokens,
            max_candidates: if front.retrieves { 1 } else { front.max_candidates },
            max_scored: if front.retrieves { config.max_users } else { config.max_step_tokens },
            has_times: front.has_times,
            has_streams: front.model.has_streams(),
            pages,
        };
        let tables = StepTables::new(&loaded.config, &loaded.tables);
        let LoadedModel { model, search, .. } = loaded;
        let parts = ExecutorParts { ops, model, tables, search, layout, store, shape };
        let executor: Box<dyn RankExecutor> = match gpu {
            Some(_) => Box::new(CudaRankExecutor::new(parts)?),
            None => Box::new(CpuRankExecutor::new(parts)?),
        };
        let names = levels.tiers.iter().map(|tier| tier.name().to_owned()).collect();
        let tiers = lower_tiers(levels, &host, front.seed.model_mark())?;
        let mut engine = RankEngine::new(limits, executor, tiers);
        if let Some(file) = trace {
            engine.trace_to(RankTrace::new(file, page_bytes, names))?;
        }
        Ok((engine, front))
    }
}

/// Ops to load a checkpoint with, beside those that compute: on a GPU with a stream of their own,
/// and whatever memory is left.
pub(super) fn loading_ops(config: &RankConfig) -> Result<Ops, Error> {
    let gpu = config.device.find()?;
    ops(&RankConfig { gpu_memory_fraction: 1.0, ..config.clone() }, gpu.as_ref())
}

fn ops(config: &RankConfig, gpu: Option<&CudaInfo>) -> Result<Ops, Error> {
    let Some(gpu) = gpu else {
        let compute = if config.f32 { Compute::F32 } else { Compute::Fast };
        return Ok(Ops::cpu(CpuOptions { threads: config.threads, level: None, compute })?);
    };
    let share = gpu.memory_bytes as f64 * f64::from(config.gpu_memory_fraction);
    Ok(Ops::cuda(CudaOptions {
        device: CudaDevice::open_share(gpu, share as usize)?,
        activation: if config.f32 { DType::F32 } else { DType::Bf16 },
        libs: config.cuda_libs.clone(),
        threads: config.threads,
        deterministic: config.deterministic,
        portable_chunks: false,
        layouts: Vec::new(),
    })?)
}

/// Pages of the device: of the longest history at the least.
fn pages(
    config: &RankConfig,
    device: &Device,
    front: &RankFront,
    layout: &PageLayout,
) -> Result<usize, Error> {
    let bytes = match (config.kv_bytes, device) {
        (Some(bytes), _) => bytes,
        (None, Device::Cpu) => CPU_KV_BYTES,
        (None, Device::Cuda(device)) => (device.left_bytes()? as f64 * PAGES_SHARE) as usize,
    };
    let least = front.max_history_tokens.div_ceil(config.page_tokens);
    Ok((bytes / layout.page_bytes()).max(least))
}

/// Pages of host memory below the device's; on the CPU none where nothing asks for them.
fn store_pages(tiers: &KvTiers, pages: usize, page_bytes: usize, is_gpu: bool) -> usize {
    let has_lower = tiers.disk.is_some() || !tiers.redis.is_empty();
    match tiers.host_bytes {
        Some(bytes) => bytes / page_bytes,
        None if is_gpu => (free_host_bytes() / PINNED_SHARE / page_bytes).min(2 * pages),
        None if has_lower => (pages / 4).max(1),
        None => 0,
    }
}

fn limits(
    config: &RankConfig,
    sizes: LevelSizes,
    levels: &LowerLevels,
    outputs: usize,
) -> SchedulerLimits {
    let tiers = config.tiers.config(sizes, &levels.tiers);
    let device_reserve = match tiers.writes_through {
        true => sizes.pages,
        false => tiers.device_reserve,
    };
    SchedulerLimits {
        max_step_tokens: config.max_step_tokens,
        max_users: config.max_users,
        max_waiting: config.max_waiting,
        cache: UserCacheLimits {
            page_tokens: config.page_tokens,
            device_pages: sizes.pages,
            host_pages: sizes.store_pages,
            has_lower_tiers: !levels.tiers.is_empty(),
            lower_tokens: KNOWN_BELOW_TOKENS,
        },
        device_reserve,
        batch_pages: tiers.batch_pages,
        wait_us: config.tiers.wait_ms.unwrap_or(WAIT_MS) * 1000,
        outputs,
        max_staleness_us: config.max_staleness.map(|it| it.as_micros() as u64),
    }
}

fn lower_tiers(
    levels: LowerLevels,
    host: &Arc<PinnedPages>,
    model: [u8; 32],
) -> Result<Option<RankTiers>, Error> {
    if levels.tiers.is_empty() {
        return Ok(None);
    }
    let threads = TierThreads::start(&levels.tiers, host, model);
    let threads = threads.map_err(|error| Error::Threads(error.to_string()))?;
    Ok(Some(RankTiers { guarded: levels.tiers, executor: Box::new(threads) }))
}

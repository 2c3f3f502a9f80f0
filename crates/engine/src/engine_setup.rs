//! An engine on its device: chooses the device and takes all memory, once.

use std::sync::Arc;
use std::thread::available_parallelism;

use serde::Serialize;
use terrace_cache::{KvGroup, PrefixSeed};
use terrace_device::cuda::{CudaDevice, CudaInfo};
use terrace_device::{DType, Device};
use terrace_kernels::{Compute, CpuLevel, CpuOptions, CudaOptions, Ops, WeightFormat};
use terrace_model::{Decoder, DecoderSpec, DecoderTensors};

use crate::context_length::for_context;
use crate::cuda_executor::{CudaExecutor, CudaExecutorShape, MemoryBudget};
use crate::device_choice::{DeviceChoice, why_no_gpu};
use crate::device_executor::{DeviceExecutor, ExecutorShape};
use crate::engine::{Engine, EngineConfig};
use crate::error::Error;
use crate::executor::Executor;
use crate::inference_config::{ComputeChoice, InferenceConfig, Precision};
use crate::scheduler::SchedulerConfig;

/// An engine without text.
pub struct EngineSetup {
    pub engine: Engine,
    pub memory: MemoryReport,
    pub device: Device,
    /// Most tokens a prompt and its answer may have together.
    pub context_tokens: usize,
}

/// Where a decoder's weights come from.
pub enum WeightSource {
    Files(DecoderTensors),
    /// Numbers that mean nothing, made on the device: for measurements.
    Random(WeightFormat),
}

/// Where the memory went, for the user to see at start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryReport {
    /// `cpu`, or the GPU's number and name.
    pub device: String,
    pub weight_bytes: usize,
    /// What each step reads of them.
    pub step_weight_bytes: usize,
    pub kv_bytes: usize,
    pub kv_pages: usize,
    pub page_tokens: usize,
    pub scratch_bytes: usize,
    pub threads: usize,
}

/// Steps of waiting that count as one priority more: a few seconds of decoding.
const AGING_STEPS: u32 = 256;

impl EngineSetup {
    /// `progress` is told after each layer that is brought to the device.
    pub fn new(
        name: &str,
        spec: DecoderSpec,
        weights: WeightSource,
        config: &InferenceConfig,
        progress: impl FnMut(),
    ) -> Result<Self, Error> {
        config.check()?;
        let spec = for_context(spec, config)?;
        let gpu = config.device.find()?;
        if let (DeviceChoice::Auto, Some(why)) = (config.device, why_no_gpu()) {
            tracing::info!("computing on the CPU: {why}");
        }
        config.check_device(gpu.is_some())?;
        let wishes = Wishes::new(spec, config);
        let running = match gpu {
            Some(gpu) => on_cuda(&wishes, weights, &gpu, config, progress)?,
            None => on_cpu(&wishes, weights, config, progress)?,
        };
        let Wishes { spec, group, longest, .. } = wishes;
        // What the pages cannot hold is no context either.
        let context_tokens = longest.min(running.memory.kv_pages * group.page_tokens());
        let engine_config = EngineConfig {
            scheduler: SchedulerConfig {
                max_step_tokens: config.max_step_tokens,
                max_seqs: config.max_batch_size,
                max_waiting: config.max_waiting,
                aging_steps: AGING_STEPS,
            },
            kv_groups: vec![group],
            pages: running.memory.kv_pages,
            prefix_seed: PrefixSeed::new(name, &format!("{:?}", spec.ropes)),
            vocab: spec.vocab,
            context_tokens,
            max_input_len: config.max_input_len,
        };
        let engine = Engine::new(running.executor, engine_config)?;
        let Running { memory, device, .. } = running;
        Ok(EngineSetup { engine, memory, device, context_tokens })
    }
}

/// What is asked for, before a device says how much of it fits.
struct Wishes {
    spec: DecoderSpec,
    group: KvGroup,
    /// Tokens of the longest request.
    longest: usize,
    /// Pages that `max_batch_size` of the longest requests need.
    pages: usize,
    threads: usize,
}

impl Wishes {
    fn new(spec: DecoderSpec, config: &InferenceConfig) -> Self {
        let layout = spec.page_layout(config.block_size, config.page_dtype());
        // Windows are masked, not forgotten: every layer keeps all tokens, so one group has them
        // all.
        let group = KvGroup { layers: (0..spec.layers.len()).collect(), layout, window: None };
        let longest = config.max_input_len.saturating_add(config.max_output_len);
        let longest = longest.min(spec.context_tokens);
        let pages = group.pages_for(longest).saturating_mul(config.max_batch_size);
        let threads = match config.threads {
            Some(threads) => threads,
            None => available_parallelism().map_or(1, usize::from),
        };
        Wishes { spec, group, longest, pages, threads }
    }

    /// The wished pages, or as many as fit into `bytes`.
    fn pages_in(&self, bytes: Option<usize>) -> Result<usize, Error> {
        let Some(bytes) = bytes else { return Ok(self.pages) };
        let page_bytes = self.group.layout.page_bytes();
        match (bytes / page_bytes).min(self.pages) {
            0 => Err(Error::KvMemoryTooSmall { bytes, page_bytes }),
            pages => Ok(pages),
        }
    }
}

struct Running {
    executor: Box<dyn Executor>,
    memory: MemoryReport,
    device: Device,
}

fn on_cpu(
    wishes: &Wishes,
    weights: WeightSource,
    config: &InferenceConfig,
    progress: impl FnMut(),
) -> Result<Running, Error> {
    let ops = cpu_ops(wishes.threads, config.compute)?;
    let decoder = decoder(wishes, weights, &ops, progress)?;
    let pages = wishes.pages_in(config.kv_memory_bytes)?;
    let shape = ExecutorShape {
        max_step_tokens: config.max_step_tokens,
        max_seqs: config.max_batch_size,
        max_seq_tokens: wishes.longest.min(pages * wishes.group.page_tokens()),
        pages,
    };
    let weight_bytes = decoder.weight_bytes();
    let step_weight_bytes = decoder.step_weight_bytes();
    let executor = DeviceExecutor::new(ops, decoder, wishes.group.clone(), shape)?;
    let taken = executor.memory_taken();
    let memory = MemoryReport {
        device: "cpu".into(),
        weight_bytes,
        step_weight_bytes,
        kv_bytes: taken.kv_bytes,
        kv_pages: pages,
        page_tokens: config.block_size,
        scratch_bytes: taken.scratch_bytes,
        threads: wishes.threads,
    };
    Ok(Running { executor: Box::new(executor), memory, device: Device::Cpu })
}

fn cpu_ops(threads: usize, compute: ComputeChoice) -> Result<Ops, Error> {
    let compute = match compute {
        ComputeChoice::Fast => Compute::Fast,
        ComputeChoice::F32 => Compute::F32,
    };
    if CpuLevel::amx_is_refused() {
        tracing::warn!("the operating system keeps AMX from us; prompts will be slower");
    }
    Ok(Ops::cpu(CpuOptions { threads, level: None, compute })?)
}

fn on_cuda(
    wishes: &Wishes,
    weights: WeightSource,
    gpu: &CudaInfo,
    config: &InferenceConfig,
    progress: impl FnMut(),
) -> Result<Running, Error> {
    let device = CudaDevice::open(gpu)?;
    let home = Device::Cuda(Arc::clone(&device));
    let allowed_bytes = (gpu.memory_bytes as f64 * f64::from(config.gpu_memory_fraction)) as usize;
    let ops = Ops::cuda(CudaOptions {
        device,
        activation: match config.dtype {
            Precision::Fp32 => DType::F32,
            _ => DType::Bf16,
        },
        libs: config.cuda_libs.clone(),
        threads: wishes.threads,
        deterministic: config.deterministic,
        layout: wishes.group.layout,
    })?;
    let decoder = decoder(wishes, weights, &ops, progress)?;
    let weight_bytes = decoder.weight_bytes();
    let step_weight_bytes = decoder.step_weight_bytes();
    let shape = CudaExecutorShape {
        max_step_tokens: config.max_step_tokens,
        max_seqs: config.max_batch_size,
        max_seq_tokens: wishes.longest,
        pages: wishes.pages_in(config.kv_memory_bytes)?,
        budget: MemoryBudget { allowed_bytes, weight_bytes },
    };
    let executor = CudaExecutor::new(ops, decoder, wishes.group.clone(), shape)?;
    let memory = MemoryReport {
        device: format!("cuda:{} {}", gpu.ordinal, gpu.name),
        weight_bytes,
        step_weight_bytes,
        kv_bytes: executor.kv_bytes(),
        kv_pages: executor.pages(),
        page_tokens: config.block_size,
        scratch_bytes: executor.scratch_bytes(),
        threads: wishes.threads,
    };
    Ok(Running { executor: Box::new(executor), memory, device: home })
}

fn decoder(
    wishes: &Wishes,
    weights: WeightSource,
    ops: &Ops,
    progress: impl FnMut(),
) -> Result<Decoder, Error> {
    let spec = wishes.spec.clone();
    Ok(match weights {
        WeightSource::Files(tensors) => Decoder::place(spec, tensors, ops, progress)?,
        WeightSource::Random(format) => Decoder::random(spec, format, ops, progress)?,
    })
}

//! From a model's files and an [`InferenceConfig`] to an engine: takes all memory, once.

use std::thread::available_parallelism;

use terrace_cache::{KvGroup, PrefixSeed};
use terrace_kernels::{CpuOptions, Ops};
use terrace_model::{Decoder, DecoderSpec, LoadedModel};

use crate::device_executor::{DeviceExecutor, ExecutorShape};
use crate::engine::{Engine, EngineConfig};
use crate::error::Error;
use crate::inference_config::InferenceConfig;
use crate::scheduler::SchedulerConfig;
use crate::text::TextFront;

/// An engine and what turns text into its ids and back.
pub struct Setup {
    pub engine: Engine,
    pub front: TextFront,
    pub memory: MemoryReport,
}

/// Where the memory went, for the user to see at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryReport {
    /// Mapped from the files, loaded as it is used.
    pub weight_bytes: u64,
    pub kv_bytes: usize,
    pub kv_pages: usize,
    pub page_tokens: usize,
    pub scratch_bytes: usize,
    pub threads: usize,
}

/// Steps of waiting that count as one priority more: a few seconds of decoding.
const AGING_STEPS: u32 = 256;

impl Setup {
    pub fn new(model: LoadedModel, config: &InferenceConfig) -> Result<Self, Error> {
        config.check()?;
        let LoadedModel { name, spec, tensors, weight_bytes, text, .. } = model;
        let threads = match config.threads {
            Some(threads) => threads,
            None => available_parallelism().map_or(1, usize::from),
        };
        let group = kv_group(&spec, config)?;
        let longest = config.max_input_len.saturating_add(config.max_output_len);
        let longest = longest.min(spec.context_tokens);
        let pages = pool_pages(&group, longest, config)?;
        // What the pages cannot hold is no context either.
        let max_seq_tokens = longest.min(pages * group.page_tokens());
        let front = TextFront::new(&name, text, spec.vocab, max_seq_tokens, config)?;
        let ops = Ops::cpu(CpuOptions { threads, level: None })?;
        let decoder = Decoder::place(spec.clone(), tensors, &ops, || {})?;
        let shape = ExecutorShape {
            max_step_tokens: config.max_step_tokens,
            max_seqs: config.max_batch_size,
            max_seq_tokens,
            pages,
        };
        let executor = DeviceExecutor::new(ops, decoder, group.clone(), shape)?;
        let taken = executor.memory_taken();
        let memory = MemoryReport {
            weight_bytes,
            kv_bytes: taken.kv_bytes,
            kv_pages: pages,
            page_tokens: config.block_size,
            scratch_bytes: taken.scratch_bytes,
            threads,
        };
        let engine_config = EngineConfig {
            scheduler: SchedulerConfig {
                max_step_tokens: config.max_step_tokens,
                max_seqs: config.max_batch_size,
                max_waiting: config.max_waiting,
                aging_steps: AGING_STEPS,
            },
            kv_groups: vec![group],
            pages,
            prefix_seed: PrefixSeed::new(&name, &format!("{:?}", spec.ropes)),
            vocab: spec.vocab,
            context_tokens: max_seq_tokens,
            max_input_len: config.max_input_len,
        };
        let engine = Engine::new(Box::new(executor), engine_config)?;
        Ok(Setup { engine, front, memory })
    }
}

fn kv_group(spec: &DecoderSpec, config: &InferenceConfig) -> Result<KvGroup, Error> {
    let layout = spec.page_layout(config.block_size, config.page_dtype()?);
    // Windows are masked, not forgotten: every layer keeps all tokens, so one group has them all.
    Ok(KvGroup { layers: (0..spec.layers.len()).collect(), layout, window: None })
}

fn pool_pages(group: &KvGroup, longest: usize, config: &InferenceConfig) -> Result<usize, Error> {
    let all = group.pages_for(longest).saturating_mul(config.max_batch_size);
    let Some(bytes) = config.kv_memory_bytes else { return Ok(all) };
    let page_bytes = group.layout.page_bytes();
    let pages = (bytes / page_bytes).min(all);
    if pages == 0 {
        return Err(Error::KvMemoryTooSmall { bytes, page_bytes });
    }
    Ok(pages)
}

//! How an engine is set up: the options of ColossalAI-Inference with their meaning, and ours.
//!
//! An option that cannot act is refused by [`InferenceConfig::check`], never ignored.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use terrace_cache::policy::Policies;
use terrace_device::DType;
use terrace_kernels::Compute;

use crate::error::Error;
use crate::guidance::GrammarCheck;
use crate::setup::device_choice::DeviceChoice;
use crate::setup::kv_cache::{Lengths, RequestedKvCache};
use crate::setup::kv_tiers::KvTiers;
use crate::setup::yarn_rope::YarnRope;
use crate::text::{GenerationConfig, PromptTemplate};
use terrace_cache::TokenId;

/// Tokens of the largest page; a whole context fits into few of them.
const BLOCK_SIZE_MAX: usize = 65_536;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table of options")]
pub struct InferenceConfig {
    /// Sequences in one step.
    pub max_batch_size: usize,
    /// New tokens of a request, and their number when it does not say.
    pub max_output_len: usize,
    /// Tokens of a prompt.
    pub max_input_len: usize,
    /// The model's type: keys and values are kept in it, and a GPU multiplies in it. Sums are f32
    /// everywhere. For the CPU's arithmetic see `compute`.
    pub dtype: Precision,
    /// Precision of the kept keys and values where it differs from `dtype`.
    pub kv_cache_dtype: Option<Precision>,
    /// `llama`, `vicuna`, `baichuan`, or a text with `{input_text}`.
    pub prompt_template: Option<String>,
    /// Presets of every request: what is set here wins over the model's `generation_config.json`,
    /// whatever its value; what is left out comes from there, then from ColossalAI's defaults.
    pub do_sample: Option<bool>,
    pub beam_width: usize,
    pub prefill_ratio: f32,
    pub pad_input: bool,
    pub early_stopping: bool,
    pub top_k: Option<usize>,
    pub top_p: Option<f32>,
    pub temperature: Option<f32>,
    pub no_repeat_ngram_size: Option<usize>,
    pub repetition_penalty: Option<f32>,
    pub forced_eos_token_id: Option<TokenId>,
    pub ignore_eos: Option<bool>,
    pub use_spec_dec: bool,
    pub max_n_spec_tokens: usize,
    pub glimpse_large_kv: bool,
    /// Tokens of a kv page.
    pub block_size: usize,
    pub tp_size: usize,
    pub pp_size: usize,
    pub micro_batch_size: usize,
    pub micro_batch_buffer_size: Option<usize>,
    /// Of a GPU: false takes the kernels that run on every GPU from Ampere on; true, and left out,
    /// those made for the GPU that is there.
    pub use_cuda_kernel: Option<bool>,
    /// Arithmetic in f32 inside kernels. Sums always are; for the rest of the CPU's see `compute`.
    pub high_precision: bool,
    pub use_cuda_graph: bool,
    pub max_context_len_to_capture: usize,
    /// Keep the first `start_token_size` tokens and the newest `generated_token_size`: the cache
    /// `streamingllm-default` of so many slots.
    pub enable_streamingllm: bool,
    pub start_token_size: usize,
    pub generated_token_size: usize,
    pub patched_parallelism_size: usize,

    /// Where to compute.
    pub device: DeviceChoice,
    /// The CPU's arithmetic.
    pub compute: ComputeChoice,
    /// Tokens that a prompt and its output may have together; absent, `max_input_len` and
    /// `max_output_len` as far as the model's context goes.
    pub max_context_len: Option<usize>,
    /// Whether the model's rotation is scaled for what is longer than its context (YaRN);
    /// absent, where `max_context_len` asks for it and the model has no scaling of its own.
    pub yarn_rope: Option<YarnRope>,
    /// How much of the GPU's memory may be taken: weights, pages and all else.
    pub gpu_memory_fraction: f32,
    /// Bytes of it that are reserved at start for what is loaded later, such as the work memory of
    /// a kind of cache that a request brings; beyond them such a request fails.
    pub gpu_arena_bytes: usize,
    /// Folders to look for NVIDIA's libraries in, before the usual ones.
    pub cuda_libs: Vec<PathBuf>,
    /// On a GPU: a row's result never depends on the other rows. Always so on the CPU.
    pub deterministic: bool,
    /// Worker threads; absent, one per core.
    pub threads: Option<usize>,
    /// Bytes of kv pages; absent, as many as `max_batch_size` of the longest requests need, and on
    /// a GPU no more than its share of memory allows.
    pub kv_memory_bytes: Option<usize>,
    /// Levels for kv pages that leave the device.
    pub kv_tiers: KvTiers,
    /// Where a trace of steps, copies and tier work is written.
    pub trace: Option<PathBuf>,
    /// Tokens computed in one step, prompts and outputs together.
    pub max_step_tokens: usize,
    /// Requests that may wait.
    pub max_waiting: usize,
    /// Draws the order in which free pages are handed out, as after a long service: for
    /// measurements, which pages in a row would flatter.
    #[serde(skip)]
    pub page_order_seed: Option<u64>,
    /// Log where memory went at the start, and every request from its prompt to its last token:
    /// at level info, to the program's `tracing` subscriber.
    pub verbose: bool,
    /// The cache of requests that ask for none: which tokens it keeps, and in how many bits.
    pub kv_cache: RequestedKvCache,
    /// The policies that `kv_cache.name` may begin with, a program's own among them.
    #[serde(skip)]
    pub policies: Policies,
    /// The process that tries grammars before they are compiled here. Without one, grammars are
    /// bounded by their size alone, and one that was written to be slow takes minutes: fine for a
    /// program's own grammars, not for untrusted ones.
    #[serde(skip)]
    pub grammar_check: Option<GrammarCheck>,
}

/// How the CPU multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComputeChoice {
    /// As `dtype` says: F32 where that is fp32, else Fast.
    Auto,
    /// Packed weights; prompts in bf16, generated tokens in 16-bit integers where weights are
    /// quantised, else in bf16.
    Fast,
    /// Everything in f32.
    F32,
}

/// The types `dtype` may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Precision {
    /// Of the model: fp16 for keys and values, while a GPU multiplies in bf16, where no number is
    /// too large. Of keys and values: as the model's.
    #[serde(rename = "auto")]
    Auto,
    #[serde(rename = "fp16")]
    Fp16,
    #[serde(rename = "bf16")]
    Bf16,
    #[serde(rename = "fp32")]
    Fp32,
    /// Eight bits with three of fraction, and a scale for each row.
    #[serde(rename = "fp8", alias = "fp8_e4m3")]
    Fp8E4m3,
    /// Eight bits with two of fraction, and a scale for each row.
    #[serde(rename = "fp8_e5m2")]
    Fp8E5m2,
    /// Integers of eight bits, and a scale for each row: of recommenders.
    #[serde(rename = "int8")]
    Int8,
}

impl Precision {
    /// The element type that it is; `Auto` is none.
    pub fn dtype(self) -> Option<DType> {
        match self {
            Precision::Auto => None,
            Precision::Fp32 => Some(DType::F32),
            Precision::Fp16 => Some(DType::F16),
            Precision::Bf16 => Some(DType::Bf16),
            Precision::Fp8E4m3 => Some(DType::F8E4m3),
            Precision::Fp8E5m2 => Some(DType::F8E5m2),
            Precision::Int8 => Some(DType::I8),
        }
    }
}

impl Default for InferenceConfig {
    /// ColossalAI-Inference's defaults, but for `dtype`, which is fp16 there.
    fn default() -> Self {
        InferenceConfig {
            max_batch_size: 8,
            max_output_len: 256,
            max_input_len: 256,
            dtype: Precision::Auto,
            kv_cache_dtype: None,
            prompt_template: None,
            do_sample: None,
            beam_width: 1,
            prefill_ratio: 1.2,
            pad_input: false,
            early_stopping: false,
            top_k: None,
            top_p: None,
            temperature: None,
            no_repeat_ngram_size: None,
            repetition_penalty: None,
            forced_eos_token_id: None,
            ignore_eos: None,
            use_spec_dec: false,
            max_n_spec_tokens: 5,
            glimpse_large_kv: false,
            block_size: 16,
            tp_size: 1,
            pp_size: 1,
            micro_batch_size: 1,
            micro_batch_buffer_size: None,
            use_cuda_kernel: None,
            high_precision: false,
            use_cuda_graph: false,
            max_context_len_to_capture: 512,
            enable_streamingllm: false,
            start_token_size: 4,
            generated_token_size: 512,
            patched_parallelism_size: 1,
            device: DeviceChoice::Auto,
            compute: ComputeChoice::Auto,
            max_context_len: None,
            yarn_rope: None,
            gpu_memory_fraction: 0.9,
            gpu_arena_bytes: 256 << 20,
            cuda_libs: Vec::new(),
            deterministic: false,
            threads: None,
            kv_memory_bytes: None,
            kv_tiers: KvTiers::default(),
            trace: None,
            max_step_tokens: 512,
            max_waiting: 1024,
            page_order_seed: None,
            verbose: false,
            kv_cache: RequestedKvCache::default(),
            policies: Policies::built_in(),
            grammar_check: None,
        }
    }
}

impl InferenceConfig {
    /// Refuses sizes that make no sense and options that cannot act.
    pub fn check(&self) -> Result<(), Error> {
        let sizes = [
            ("max_batch_size", self.max_batch_size),
            ("max_output_len", self.max_output_len),
            ("max_input_len", self.max_input_len),
            ("block_size", self.block_size),
            ("max_step_tokens", self.max_step_tokens),
            ("threads", self.threads.unwrap_or(1)),
            ("max_context_len", self.max_context_len.unwrap_or(1)),
        ];
        if let Some((option, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(refused(option, "0", "must be at least 1"));
        }
        if !(0.0 < self.gpu_memory_fraction && self.gpu_memory_fraction <= 1.0) {
            let value = self.gpu_memory_fraction.to_string();
            return Err(refused("gpu_memory_fraction", &value, "must be above 0 and at most 1"));
        }
        if BLOCK_SIZE_MAX < self.block_size {
            let value = self.block_size.to_string();
            return Err(refused("block_size", &value, "must be at most 65536"));
        }
        if matches!(self.dtype, Precision::Fp8E4m3 | Precision::Fp8E5m2) {
            return Err(refused("dtype", "fp8", "only pages can be fp8; set kv_cache_dtype"));
        }
        if [Some(self.dtype), self.kv_cache_dtype].contains(&Some(Precision::Int8)) {
            let rule = "only recommenders have int8 pages; a language model's cache is of 8 bits \
                        with kv_cache.name = dense-torch-quantized8";
            return Err(refused("kv_cache_dtype", "int8", rule));
        }
        if self.yarn_rope == Some(YarnRope::Dynamic) && self.page_dtype().bytes() == 1 {
            let rule = "with yarn_rope = dynamic set kv_cache.name = dense-fp8 instead";
            return Err(refused("kv_cache_dtype", "fp8", rule));
        }
        self.check_idle_options()?;
        self.prompt_template().map(drop)
    }

    /// The element type of kv pages.
    pub fn page_dtype(&self) -> DType {
        let own = self.kv_cache_dtype.filter(|own| *own != Precision::Auto);
        own.unwrap_or(self.dtype).dtype().unwrap_or(DType::F16)
    }

    /// What a GPU multiplies.
    pub fn gpu_activation(&self) -> DType {
        match self.dtype {
            Precision::Fp32 => DType::F32,
            Precision::Fp16 => DType::F16,
            _ => DType::Bf16,
        }
    }

    /// The CPU's arithmetic.
    pub fn cpu_compute(&self) -> Compute {
        match (self.compute, self.dtype) {
            (ComputeChoice::F32, _) | (ComputeChoice::Auto, Precision::Fp32) => Compute::F32,
            (ComputeChoice::Fast | ComputeChoice::Auto, _) => Compute::Fast,
        }
    }

    /// The cache of requests that ask for none.
    pub fn own_cache(&self) -> RequestedKvCache {
        if !self.enable_streamingllm {
            return self.kv_cache.clone();
        }
        let slots = self.start_token_size + self.generated_token_size;
        RequestedKvCache {
            name: Some("streamingllm-default".into()),
            cache_length: Some(Lengths::One(slots)),
            init_grace_tokens: Some(self.start_token_size),
            ..self.kv_cache.clone()
        }
    }

    pub fn prompt_template(&self) -> Result<Option<PromptTemplate>, Error> {
        self.prompt_template.as_deref().map(PromptTemplate::parse).transpose()
    }

    /// The generation options set here, as presets for every request.
    pub fn generation_presets(&self) -> GenerationConfig {
        GenerationConfig {
            do_sample: self.do_sample,
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            repetition_penalty: self.repetition_penalty,
            no_repeat_ngram_size: self.no_repeat_ngram_size,
            forced_eos_token_id: self.forced_eos_token_id,
            ignore_eos: self.ignore_eos,
            ..GenerationConfig::default()
        }
    }

    /// Refuses what the device that was found cannot do.
    pub fn check_device(&self, is_gpu: bool) -> Result<(), Error> {
        let wants_gpu = [
            ("use_cuda_kernel", self.use_cuda_kernel == Some(true)),
            ("use_cuda_graph", self.use_cuda_graph),
        ];
        match wants_gpu.iter().find(|(_, wanted)| *wanted && !is_gpu) {
            Some((option, _)) => Err(refused(option, "true", "there is no GPU to compute on")),
            None => Ok(()),
        }
    }

    /// Options of the original that have no effect here must be left as they are.
    fn check_idle_options(&self) -> Result<(), Error> {
        let seed = InferenceConfig::default();
        let one_device = "this build runs on one device";
        let no_speculation = "speculative decoding is not built yet";
        let no_streaming = "it belongs to enable_streamingllm, which is off";
        let streams = self.enable_streamingllm;
        let idle = [
            ("beam_width", self.beam_width == 1, "beam search is not built yet"),
            ("early_stopping", !self.early_stopping, "it belongs to beam search, not built yet"),
            (
                "prefill_ratio",
                self.prefill_ratio == seed.prefill_ratio,
                "prompts and answers share each step, there is no ratio to wait for",
            ),
            ("pad_input", !self.pad_input, "rows are never padded"),
            ("use_spec_dec", !self.use_spec_dec, no_speculation),
            ("max_n_spec_tokens", self.max_n_spec_tokens == seed.max_n_spec_tokens, no_speculation),
            ("glimpse_large_kv", !self.glimpse_large_kv, no_speculation),
            ("tp_size", self.tp_size == 1, one_device),
            ("pp_size", self.pp_size == 1, one_device),
            ("micro_batch_size", self.micro_batch_size == 1, one_device),
            ("micro_batch_buffer_size", self.micro_batch_buffer_size.is_none(), one_device),
            ("patched_parallelism_size", self.patched_parallelism_size == 1, one_device),
            (
                "max_context_len_to_capture",
                self.max_context_len_to_capture == seed.max_context_len_to_capture,
                "captured graphs serve every length",
            ),
            (
                "enable_streamingllm",
                !streams || self.kv_cache.name.is_none(),
                "kv_cache.name says which tokens are kept; give one of the two",
            ),
            (
                "start_token_size",
                streams || self.start_token_size == seed.start_token_size,
                no_streaming,
            ),
            (
                "generated_token_size",
                streams || self.generated_token_size == seed.generated_token_size,
                no_streaming,
            ),
        ];
        match idle.iter().find(|(_, untouched, _)| !untouched) {
            Some((option, _, reason)) => Err(refused(option, "set", reason)),
            None => Ok(()),
        }
    }
}

fn refused(option: &'static str, value: &str, rule: &'static str) -> Error {
    Error::BadOption { option, value: value.into(), rule: rule.into() }
}

//! Which model runs, and with how much memory and how many threads.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use terrace_engine::rank::RankConfig;
use terrace_engine::{
    ComputeChoice, DeviceChoice, InferenceConfig, KvTiers, PlacementRule, Precision, YarnRope,
};

use crate::byte_size::ByteSize;
use crate::options::{EngineDefaults, IdleOptions, KvCacheOptions, KvTier, ModelChoice};
use crate::options::{at_least_one, flag, fraction, trace_path, whole_number};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Model and engine")]
pub struct EngineOptions {
    /// The model: a GGUF file, a folder in Hugging Face's layout (config.json, *.safetensors,
    /// tokenizer.json), or a name that `terrace pull` knows, which is pulled if it is not there:
    /// smollm2, or ORG/NAME of the Hugging Face hub, with :REVISION or :FILE.gguf if need be.
    /// A server takes several, each with a name before it: --model a=PATH --model b=PATH.
    #[arg(short, long, value_name = "[NAME=]PATH_OR_NAME", value_parser = ModelChoice::parse,
          default_value = "smollm2-135m-instruct")]
    pub model: Vec<ModelChoice>,

    /// A LoRA adapter of the model: a folder as PEFT writes it (adapter_config.json and
    /// adapter_model.safetensors), with plain LoRA or DoRA. It is merged into weights of f32, f16
    /// and bf16 at start, and computed beside quantised ones, on the CPU alone. Of several models
    /// each has its own, in [[models]] of a settings file.
    #[arg(long, value_name = "FOLDER")]
    pub adapter: Option<PathBuf>,

    /// Where to compute: auto (the first GPU, or the CPU when there is none), cpu, or cuda:0.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,

    /// How much of the GPU's memory the models may take, from 0.05 to 1; each has an equal share.
    /// What the weights leave of a share goes to keys and values.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.9, value_parser = fraction)]
    gpu_memory_fraction: f32,

    /// Memory of the GPU, as a part of that fraction, that is reserved at start for what is loaded
    /// later: the work memory of a KV cache that a request asks for and the server has not.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", hide_short_help = true)]
    gpu_arena: ByteSize,

    /// A folder with NVIDIA's libraries (cuBLASLt), looked into before the usual ones. Without
    /// them Terrace multiplies large matrices with kernels of its own. Left out: the usual ones
    /// alone.
    #[arg(long, value_name = "FOLDER")]
    cuda_libs: Vec<PathBuf>,

    /// On a GPU: give every request the same output alone and among others, at some cost in speed.
    /// On the CPU this is always so.
    #[arg(long)]
    deterministic: bool,

    /// On a GPU: false takes the kernels that run on every GPU from Ampere on, slower than those
    /// made for the GPU that is there. true is refused without a GPU. Left out: the GPU's own.
    #[arg(long, value_name = "BOOL", value_parser = flag, num_args = 0..=1,
          default_missing_value = "true", require_equals = true, hide_short_help = true)]
    use_cuda_kernel: Option<bool>,

    /// The CPU's arithmetic. fast: weights are packed for its instructions, prompts are multiplied
    /// in bf16, and generated tokens with 16-bit integers where weights are quantised. f32: all in
    /// f32, as golden models are checked. auto: f32 with --dtype fp32, else fast.
    #[arg(long, value_name = "ARITHMETIC", default_value = "auto", value_parser = compute())]
    compute: ComputeChoice,

    /// The model's type: fp16, bf16 or fp32. Keys and values are kept in it, and a GPU multiplies
    /// in it and adds in fp32. auto: fp16 for keys and values, and a GPU multiplies in bf16.
    #[arg(short, long, value_name = "TYPE", default_value = "auto", value_parser = precision())]
    dtype: Precision,

    /// Precision of the kept keys and values, where it shall differ from --dtype: also fp8 (e4m3)
    /// and fp8_e5m2, with a scale for each row. Left out, and at auto: as --dtype.
    #[arg(long, value_name = "TYPE", value_parser = precision())]
    kv_cache_dtype: Option<Precision>,

    /// Tokens of one page of keys and values. Prompts share whole pages, so smaller pages share
    /// more and cost a little more to find.
    #[arg(long, value_name = "TOKENS", default_value_t = 16, value_parser = at_least_one::<usize>)]
    block_size: usize,

    /// Sequences computed together in one step; more requests wait their turn. Left out: 32, and in
    /// a measurement as many as it needs.
    #[arg(long, value_name = "SEQUENCES", value_parser = at_least_one::<usize>)]
    max_batch_size: Option<usize>,

    /// Longest prompt; a longer one is refused. Left out: as long as the model's context.
    #[arg(short = 'i', long, value_name = "TOKENS", value_parser = at_least_one::<usize>)]
    max_input_len: Option<usize>,

    /// Longest output; a request for a longer one is refused. Left out: what the prompt leaves of
    /// the model's context.
    #[arg(short = 'o', long, value_name = "TOKENS", value_parser = at_least_one::<usize>)]
    max_output_len: Option<usize>,

    /// Most tokens of a prompt and its output together. More than the model was trained for
    /// scales its positions (YaRN), at some cost in quality for short texts.
    /// Left out: the model's context.
    #[arg(long, value_name = "TOKENS", value_parser = at_least_one::<usize>)]
    max_context_len: Option<usize>,

    /// Whether to scale positions for texts longer than the model was trained for (YaRN). true:
    /// for --max-context-len, or else for --max-input-len and --max-output-len together, and for
    /// all texts alike. dynamic: for each text as it grows, so that short ones stay as they are;
    /// slower. A model's own scaling is replaced. Left out: true where --max-context-len asks
    /// for it, and the model has no scaling of its own.
    #[arg(long, value_name = "WHEN", value_parser = yarn_rope(), ignore_case = true)]
    yarn_rope: Option<YarnRope>,

    /// Tokens computed in one step, of prompts and outputs together. Less keeps the inter-token
    /// latency low while a long prompt comes in; more prefills faster. Left out: 512 on the CPU,
    /// 2048 on a GPU.
    #[arg(long, value_name = "TOKENS", value_parser = at_least_one::<usize>)]
    max_step_tokens: Option<usize>,

    /// Requests that may wait for their turn; one more is refused with status 429. Left out: 1024
    /// in a server, any number in a measurement.
    #[arg(long, value_name = "REQUESTS", value_parser = whole_number::<usize>)]
    max_waiting: Option<usize>,

    /// Memory for keys and values, such as 512MiB or 4GiB. Never more is taken than
    /// --max-batch-size requests of the longest prompt and output could use. Left out: 1GiB on the
    /// CPU; on a GPU what --gpu-memory-fraction leaves.
    #[arg(long, value_name = "SIZE")]
    kv_memory: Option<ByteSize>,

    /// Where keys and values go that leave the device: host=8GiB (host memory), disk=FOLDER,100GiB
    /// (outlives the server) or redis=HOST:PORT,... (a Redis Cluster or one Redis, shared by
    /// servers). Give it once for each level. Prefixes that are found there are not computed again.
    /// Left out: with a GPU host memory, an eighth of what is free; on the CPU none but a quarter
    /// of --kv-memory for preempted requests. host=0 turns host memory off.
    #[arg(long, value_name = "LEVEL=...")]
    kv_tier: Vec<KvTier>,

    /// Copies pages of keys and values to the levels of --kv-tier as soon as they are full, so that
    /// a crash loses none and other servers find them at once. Left out: when their room is
    /// needed, and when the server ends.
    #[arg(long)]
    kv_write_through: bool,

    /// Which pages of keys and values leave a full level first: lru (longest unused), lfu (least
    /// often used) or arc (adapts between both).
    #[arg(long, value_name = "RULE", default_value_t)]
    kv_placement: PlacementRule,

    /// How many milliseconds a request waits for pages of disk and Redis before it computes what is
    /// missing while they keep coming. Left out: 250 on the CPU; with a GPU it computes at once.
    #[arg(long, value_name = "MS", value_parser = whole_number::<u64>)]
    kv_tier_wait: Option<u64>,

    /// Writes what the engine does to a file for Perfetto (ui.perfetto.dev) or Chrome's
    /// about:tracing: steps, copies of pages, and the work of --kv-tier's levels. Left out: none
    /// is written.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Host memory that pinned handles may hold, such as 4GiB. Left out: half of the host level of
    /// --kv-tier.
    #[arg(long, value_name = "SIZE")]
    kv_pin_budget: Option<ByteSize>,

    /// Worker threads. Left out: one for each core.
    #[arg(long, value_parser = at_least_one::<usize>)]
    threads: Option<usize>,

    /// Puts each plain prompt (not chats) into a frame: llama, vicuna, baichuan, or a text of your
    /// own with {input_text} where the prompt goes.
    #[arg(long, value_name = "NAME_OR_TEXT")]
    prompt_template: Option<String>,

    #[command(flatten)]
    kv_cache: KvCacheOptions,

    #[command(flatten)]
    idle: IdleOptions,
}

impl EngineOptions {
    /// The engine's configuration; refuses what makes no sense and what cannot act.
    pub fn inference_config(
        &self,
        defaults: EngineDefaults,
    ) -> Result<InferenceConfig, terrace_engine::Error> {
        let is_gpu = self.device.find()?.is_some();
        let step_tokens = defaults.step_tokens.max(if is_gpu { 2048 } else { 512 });
        let kv_bytes = defaults.cpu_kv_bytes.filter(|_| !is_gpu);
        let context = self.max_context_len.unwrap_or(1);
        let mut config = InferenceConfig {
            dtype: self.dtype,
            kv_cache_dtype: self.kv_cache_dtype,
            block_size: self.block_size,
            max_batch_size: self.max_batch_size.unwrap_or(defaults.max_batch_size),
            max_input_len: self.max_input_len.unwrap_or(defaults.max_input_len.max(context)),
            max_output_len: self.max_output_len.unwrap_or(defaults.max_output_len.max(context)),
            max_context_len: self.max_context_len.or_else(|| self.shared_context(defaults)),
            yarn_rope: self.yarn_rope,
            max_step_tokens: self.max_step_tokens.unwrap_or(step_tokens),
            max_waiting: self.max_waiting.unwrap_or(defaults.max_waiting),
            kv_memory_bytes: self.kv_memory.map(|size| size.0).or(kv_bytes),
            kv_tiers: self.kv_tiers(defaults.models),
            trace: self.trace(defaults.models),
            device: self.device,
            compute: self.compute,
            use_cuda_kernel: self.use_cuda_kernel,
            gpu_memory_fraction: self.gpu_memory_fraction / defaults.models as f32,
            gpu_arena_bytes: self.gpu_arena.0,
            cuda_libs: self.cuda_libs.clone(),
            deterministic: self.deterministic,
            threads: self.threads,
            page_order_seed: defaults.page_order_seed,
            prompt_template: self.prompt_template.clone(),
            ..InferenceConfig::default()
        };
        self.kv_cache.set(&mut config);
        self.idle.set(&mut config);
        config.check()?;
        Ok(config)
    }

    /// The configuration of a recommender.
    pub fn rank_config(&self, models: usize) -> RankConfig {
        let defaults = RankConfig::default();
        let f32 = self.compute == ComputeChoice::F32 || self.dtype == Precision::Fp32;
        RankConfig {
            device: self.device,
            gpu_memory_fraction: self.gpu_memory_fraction / models as f32,
            cuda_libs: self.cuda_libs.clone(),
            // Pages of prompts are smaller than those of histories, which are not shared.
            page_tokens: self.block_size.max(defaults.page_tokens),
            kv_bytes: self.kv_memory.map(|size| size.0),
            kv_dtype: self.kv_cache_dtype.and_then(Precision::dtype).or_else(|| self.dtype.dtype()),
            f32,
            deterministic: self.deterministic,
            max_step_tokens: self.max_step_tokens.unwrap_or(defaults.max_step_tokens),
            max_users: self.max_batch_size.unwrap_or(defaults.max_users),
            max_waiting: self.max_waiting.unwrap_or(defaults.max_waiting),
            threads: self.threads.unwrap_or(defaults.threads),
            tiers: self.kv_tiers(models),
            trace: self.trace(models),
            ..defaults
        }
    }

    /// Of several models each has a folder of its own, and an even share of the bytes.
    fn kv_tiers(&self, models: usize) -> KvTiers {
        let mut tiers = KvTiers {
            write_through: self.kv_write_through,
            placement: self.kv_placement,
            wait_ms: self.kv_tier_wait,
            pin_bytes: self.kv_pin_budget.map(|size| size.0 / models),
            ..KvTiers::default()
        };
        self.kv_tier.iter().for_each(|tier| tier.set(&mut tiers));
        if 1 < models {
            tiers.host_bytes = tiers.host_bytes.map(|bytes| bytes / models);
            if let (Some(disk), [model]) = (&mut tiers.disk, self.model.as_slice()) {
                disk.folder.push(model.to_string().replace(['/', ':'], "-"));
                disk.bytes /= models as u64;
            }
        }
        tiers
    }

    /// What positions are scaled for, where no length says it.
    fn shared_context(&self, defaults: EngineDefaults) -> Option<usize> {
        let lengths = [self.max_input_len, self.max_output_len];
        let is_open = lengths.contains(&None) && self.scales_positions();
        let longest = lengths.into_iter().flatten().max().unwrap_or(0);
        defaults.context_tokens.filter(|_| is_open).map(|context| context.max(longest))
    }

    fn scales_positions(&self) -> bool {
        matches!(self.yarn_rope, Some(YarnRope::Expected | YarnRope::Dynamic))
    }

    /// The one model, where only one can be.
    pub fn only_model(&self) -> Result<&ModelChoice> {
        match self.model.as_slice() {
            [only] => Ok(only),
            several => bail!(
                "{} models were given; only `terrace serve` takes more than one",
                several.len()
            ),
        }
    }

    /// Of several models each has a file of its own.
    fn trace(&self, models: usize) -> Option<PathBuf> {
        match (&self.trace, self.model.as_slice()) {
            (Some(path), [model]) if 1 < models => {
                Some(trace_path::of_model(path, &model.to_string()))
            }
            (path, _) => path.clone(),
        }
    }

    /// The same options for each of the models.
    pub fn of_each_model(&self) -> Vec<Self> {
        self.model.iter().map(|model| self.of_model(model)).collect()
    }

    /// The same options for this model alone.
    pub fn of_model(&self, model: &ModelChoice) -> Self {
        Self { model: vec![model.clone()], ..self.clone() }
    }

    /// Where to compute.
    pub fn device(&self) -> DeviceChoice {
        self.device
    }

    /// Folders to look for CUDA's libraries in.
    pub fn cuda_libs(&self) -> &[PathBuf] {
        &self.cuda_libs
    }

    /// Tokens of one page.
    pub fn page_tokens(&self) -> usize {
        self.block_size
    }
}

fn compute() -> impl TypedValueParser<Value = ComputeChoice> {
    PossibleValuesParser::new(["auto", "fast", "f32"]).map(|name| match name.as_str() {
        "f32" => ComputeChoice::F32,
        "fast" => ComputeChoice::Fast,
        _ => ComputeChoice::Auto,
    })
}

fn yarn_rope() -> impl TypedValueParser<Value = YarnRope> {
    PossibleValuesParser::new(YarnRope::NAMES).try_map(|name| name.parse::<YarnRope>())
}

/// Names of types, those of PyTorch among them.
fn precision() -> impl TypedValueParser<Value = Precision> {
    let values = [
        PossibleValue::new("auto"),
        PossibleValue::new("fp16").aliases(["half", "float16"]),
        PossibleValue::new("bf16").alias("bfloat16"),
        PossibleValue::new("fp32").aliases(["float", "float32"]),
        PossibleValue::new("fp8").alias("fp8_e4m3"),
        PossibleValue::new("fp8_e5m2"),
        PossibleValue::new("int8"),
    ];
    PossibleValuesParser::new(values).map(|name| match name.as_str() {
        "auto" => Precision::Auto,
        "fp16" | "half" | "float16" => Precision::Fp16,
        "bf16" | "bfloat16" => Precision::Bf16,
        "fp32" | "float" | "float32" => Precision::Fp32,
        "fp8" | "fp8_e4m3" => Precision::Fp8E4m3,
        "int8" => Precision::Int8,
        _ => Precision::Fp8E5m2,
    })
}

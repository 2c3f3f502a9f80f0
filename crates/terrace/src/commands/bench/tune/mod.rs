//! `terrace bench tune`: how fast a language model learns with a KV cache policy in place.

mod batch_shape;
mod measured_training;
mod random_tensors;
mod report;
mod step_flops;

use std::thread::available_parallelism;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use terrace_cache::policy::{Policies, SlotFormat};
use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, Device};
use terrace_engine::DeviceChoice;
use terrace_kernels::{Compute, CpuOptions, CudaOptions, OpClock, Ops};
use terrace_model::{AttentionSpec, DecoderSpec, LoadedModel};
use terrace_tune::{
    CellLength, GradientOptions, LatticeOptions, LoraKind, LoraOptions, LoraTargets, LossMean,
    Rounding, Training, WeightsAt,
};

use self::batch_shape::BatchShape;
use self::measured_training::{MeasuredTraining, TrainingSetup};
use self::random_tensors::random_tensors;
use self::report::{StepRow, TuneReport};
use self::step_flops::step_flops;
use crate::byte_size::ByteSize;
use crate::commands::print_report::print_report;
use crate::open_model;
use crate::options::{KvCacheOptions, ShapeOptions, at_least_one, start_quiet_log};

/// Measure how fast a language model learns on this machine, through a KV cache policy.
///
/// A step is a batch of random tokens that all have targets: a forward pass in which the policy
/// decides, the loss, the backward pass through what was kept, and a step of AdamW. Timed is all of
/// it; --steps are counted, after one that is not.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the table:
  tok/s      tokens of the batch by the time of a step: best (median, least)
  forward    of the best step, as the lines below it: layers with the policy
  head       final norm, logits, loss, and their gradients
  backward   layers once more as the log has it, and their gradients
  roofline   the operations of a step that computes nothing twice at --tflops

Examples:
  terrace bench tune
  terrace bench tune --tokens 8192 --kv-cache.name h2o-default --kv-cache.cache-length 2048
  terrace bench tune --precision f32 --full --steps 5 --json
  terrace bench tune --shape qwen3-4b --random-weights --batch 2 --tokens 65536 \
    --kv-cache.name h2o-torch-quantized8 --kv-cache.cache-length 32768 \
    --kv-cache.chunk-size 2048")]
pub struct TuneArgs {
    /// The model: a GGUF file, a folder in Hugging Face's layout, or a name that `terrace pull`
    /// knows.
    #[arg(short, long, value_name = "PATH_OR_NAME", default_value = "smollm2-135m-instruct")]
    model: String,

    #[command(flatten)]
    shape: ShapeOptions,

    /// Where to compute: auto (the first GPU, or the CPU when there is none), cpu, or cuda:0.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,

    /// Most memory of a GPU that is taken, such as 24GiB. Left out: as much as there is.
    #[arg(long, value_name = "BYTES")]
    gpu_memory: Option<ByteSize>,

    /// Where a GPU keeps keys and values between cells: on the host its memory does not grow with
    /// the text at all.
    #[arg(long)]
    kv_on_host: bool,

    /// Keep weights on the host: a GPU has those of one row of layers at a time.
    #[arg(long)]
    weights_on_host: bool,

    /// Tokens of each sequence.
    #[arg(long, value_name = "TOKENS", default_value_t = 2048,
          value_parser = at_least_one::<usize>)]
    tokens: usize,

    /// Sequences of a batch.
    #[arg(long, value_name = "SEQUENCES", default_value_t = 1,
          value_parser = at_least_one::<usize>)]
    batch: usize,

    /// Rank of the branches beside queries and values (LoRA), which are trained.
    #[arg(long, value_name = "RANK", default_value_t = 8, value_parser = at_least_one::<usize>)]
    lora_rank: usize,

    /// Train all weights instead of branches.
    #[arg(long, conflicts_with = "lora_rank")]
    full: bool,

    /// bf16: both sides of products are rounded to it, sums and all else are f32; or all in f32.
    #[arg(long, value_name = "TYPE", default_value = "bf16")]
    precision: TunePrecision,

    /// Layers that are run forward and backward at a time: more take memory, fewer are run more
    /// often.
    #[arg(long, value_name = "LAYERS", default_value_t = 1, value_parser = at_least_one::<usize>)]
    layers_per_cell: usize,

    /// Tokens that are run forward and backward at a time, by the slots of the longest cache.
    #[arg(long, value_name = "TIMES", default_value_t = 1.0)]
    chunks_per_cell_multiplier: f64,

    /// Let ops run without waiting for each: a GPU's times by op are not known then.
    #[arg(long)]
    untimed: bool,

    /// Worker threads. Left out: one for each processor.
    #[arg(long, value_name = "COUNT", value_parser = at_least_one::<usize>)]
    threads: Option<usize>,

    /// TFLOP/s of the processor's products, for the roofline.
    #[arg(long, value_name = "TFLOP/S")]
    tflops: Option<f64>,

    /// Steps that are counted.
    #[arg(long, value_name = "STEPS", default_value_t = 3, value_parser = at_least_one::<usize>)]
    steps: usize,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    kv_cache: KvCacheOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TunePrecision {
    F32,
    Bf16,
}

impl TunePrecision {
    fn name(self) -> &'static str {
        match self {
            TunePrecision::F32 => "f32",
            TunePrecision::Bf16 => "bf16",
        }
    }

    fn activation(self) -> DType {
        match self {
            TunePrecision::F32 => DType::F32,
            TunePrecision::Bf16 => DType::Bf16,
        }
    }

    fn compute(self) -> Compute {
        match self {
            TunePrecision::F32 => Compute::F32,
            TunePrecision::Bf16 => Compute::Fast,
        }
    }
}

/// Where nobody says.
const CHUNK_SIZE: usize = 1024;

pub fn run(args: &TuneArgs) -> Result<()> {
    start_quiet_log();
    print_report(&measure(args)?, args.json)
}

fn measure(args: &TuneArgs) -> Result<TuneReport> {
    if args.tflops.is_some_and(|tflops| tflops.is_nan() || tflops <= 0.0) {
        bail!("--tflops must be above 0");
    }
    // Wrong options are reported before a model is fetched.
    let requested = args.kv_cache.own_cache()?;
    let (name, spec, tensors) = match args.shape.shape {
        Some(shape) => (shape.name.to_owned(), shape.spec(), random_tensors(&shape.spec())?),
        None => {
            let LoadedModel { name, spec, tensors, .. } =
                open_model::load(&args.model, None, None)?;
            (name, spec, tensors)
        }
    };
    let tokens = args.tokens;
    if spec.context_tokens < tokens {
        bail!("--tokens {tokens}: the context of {name} holds {}", spec.context_tokens);
    }
    let policies = Policies::built_in();
    let cache = requested.spec(tokens, CHUNK_SIZE.min(tokens), &policies, &head_dims(&spec))?;
    let threads = args.threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
    let (ops, device) = args.ops(threads)?;
    let clock = OpClock::default();
    let ops = match args.untimed {
        true => ops.tuning()?,
        false => ops.tuning()?.timed(&clock),
    };
    let flops = step_flops(&spec, &tensors, &cache, args.batch_shape(), args.full);
    let setup = TrainingSetup {
        ops,
        clock: &clock,
        spec: &spec,
        cache: &cache,
        options: args.gradient_options(&ops.device()),
        shape: args.batch_shape(),
        weights_at: if args.weights_on_host { WeightsAt::Host } else { WeightsAt::Device },
    };
    let mut training = MeasuredTraining::new(setup, &tensors, args.training())?;
    training.step()?;
    let steps = (0..args.steps).map(|_| training.step()).collect::<Result<Vec<StepRow>>>()?;
    Ok(TuneReport::new(report::Measured {
        model: name,
        device,
        precision: args.precision.name(),
        cache: cache.name(),
        cache_lengths: cache.lengths().to_vec(),
        shape: args.batch_shape(),
        trained: training.trained_numbers(),
        lora_rank: (!args.full).then_some(args.lora_rank),
        roofline_s: args.tflops.map(|tflops| flops / tflops * 1e-12),
        flops,
        device_bytes: match ops.device() {
            Device::Cpu => None,
            Device::Cuda(device) => Some(device.taken_bytes()),
        },
        steps,
    }))
}

impl TuneArgs {
    fn batch_shape(&self) -> BatchShape {
        [self.batch, self.tokens]
    }

    /// What computes, and its name.
    fn ops(&self, threads: usize) -> Result<(Ops, String)> {
        let Some(gpu) = self.device.find()? else {
            let compute = self.precision.compute();
            let ops = Ops::cpu(CpuOptions { threads, level: None, compute })?;
            return Ok((ops, format!("cpu, {threads} threads")));
        };
        let most = self.gpu_memory.map_or(usize::MAX, |ByteSize(bytes)| bytes);
        let name = format!("cuda:{} {}", gpu.ordinal, gpu.name);
        let ops = Ops::cuda(CudaOptions {
            device: CudaDevice::open_share(&gpu, most)?,
            activation: self.precision.activation(),
            libs: Vec::new(),
            threads,
            deterministic: false,
            portable_chunks: false,
            layouts: Vec::new(),
        })?;
        Ok((ops, name))
    }

    fn training(&self) -> Training {
        if self.full {
            return Training::Full;
        }
        Training::Lora(LoraOptions {
            rank: self.lora_rank,
            alpha: 2.0 * self.lora_rank as f32,
            kind: LoraKind::Default,
            targets: LoraTargets::QUERY_VALUE,
            dropout: 0.0,
            seed: 1,
        })
    }

    fn gradient_options(&self, device: &Device) -> GradientOptions {
        GradientOptions {
            loss_mean: LossMean::Targets,
            rounding: Rounding::EachRow,
            dropout_seed: 0,
            lattice: LatticeOptions {
                layers_per_cell: self.layers_per_cell,
                cell_length: CellLength::Slots { multiplier: self.chunks_per_cell_multiplier },
                single_tokens_for_targets: false,
                chunk_seed: 0,
            },
            layer_checkpoints: SlotFormat::Plain,
            kv_checkpoints: SlotFormat::Plain,
            kv_on_host: self.kv_on_host,
            logits_most: match device {
                // 16 MiB, which stay in cache.
                Device::Cpu => 1 << 22,
                Device::Cuda(_) => 1 << 26,
            },
        }
    }
}

/// Of keys and of values, in each layer.
fn head_dims(spec: &DecoderSpec) -> Vec<[usize; 2]> {
    let dims = spec.layers.iter().map(|layer| {
        let AttentionSpec::GroupedQuery(attention) = &layer.attention;
        [attention.head_dim; 2]
    });
    dims.collect()
}

#[cfg(test)]
mod tests;

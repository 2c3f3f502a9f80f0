//! `terrace bench attention`: how fast a device attends over slots.
//!
//! Caches are full: every sequence has `keys` slots and must forget a token for each new one. The
//! slots of the new rows are chosen once, which is not timed; what is timed stores these rows,
//! attends, and with weights adds to the scores of all slots.

mod report;
mod slot_step;
mod step_shape;
mod timing;

use std::thread::available_parallelism;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use terrace_cache::policy::SlotFormat;
use terrace_device::DType;
use terrace_engine::DeviceChoice;
use terrace_kernels::{Ops, PageLayout, RowFormat};
use terrace_model::KnownShape;

use self::report::{AttentionReport, Measurement};
use self::slot_step::SlotStep;
use self::step_shape::StepShape;
pub use self::timing::Timing;
use crate::commands::print_report::print_report;
use crate::commands::selftest::tested_device::TestedDevice;
use crate::options::start_quiet_log;

/// Measure attention over the slots of full caches.
///
/// Two kinds of steps are measured: decoding, where each of --batch sequences has one new row, and
/// a chunk, where one sequence has --chunk rows; both without and with the weights of slots, which
/// policies such as h2o add up to scores, and for each format of keys and values. It is the op that
/// serving runs; on a GPU as a captured CUDA graph, over layers that are larger than its cache. The
/// best of --repeat runs is shown, since other programs only ever slow a run down.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the table:
  GB/s      bytes that a decoding step must read of slots (and scores it writes), over its time
  TFLOP/s   operations of a chunk's matmuls (4 for each row, slot, head and number), over its time
  cost      time with weights, divided by the time without
  gain      time of the first format without weights, divided by this one's

Left out, sizes are those of an 8B model on a GPU (32 heads, 8 for keys and values, 128 numbers,
16384 slots, batches of 32 and 1, chunks of 1024), and of a small model on the CPU (9 heads, 3, 64
numbers, 4096 slots, batches of 8 and 1, chunks of 128).

Examples:
  terrace bench attention
  terrace bench attention --keys 2048 --batch 64 --chunk 0
  terrace bench attention --format default,torch-quantized8 --page-slots 64
  terrace bench attention --device cpu --threads 4 --json > attention.json")]
pub struct AttentionArgs {
    /// Where to compute: auto (the first GPU, or the CPU when there is none), cpu, or cuda:0.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,

    /// Worker threads. Left out: one for each core.
    #[arg(long)]
    threads: Option<usize>,

    /// Query heads.
    #[arg(long)]
    heads: Option<usize>,

    /// Key/value heads.
    #[arg(long)]
    kv_heads: Option<usize>,

    /// Dimension of a head.
    #[arg(long, value_name = "NUMBERS")]
    head_dim: Option<usize>,

    /// Slots of a sequence, all of them filled.
    #[arg(long, value_name = "SLOTS")]
    keys: Option<usize>,

    /// Sequences of a decoding step; several sizes are measured one after the other.
    #[arg(long, value_name = "SEQUENCES", value_delimiter = ',')]
    batch: Option<Vec<usize>>,

    /// Rows of a chunk; 0 for none.
    #[arg(long, value_name = "ROWS")]
    chunk: Option<usize>,

    /// Format of keys and values; several formats are measured one after the other. default is
    /// bf16 on a GPU and f16 on the CPU.
    #[arg(long, value_name = "FORMAT", value_delimiter = ',', value_parser = format(),
          default_value = "default,torch-quantized8,torch-quantized4,fp8")]
    format: Vec<SlotFormat>,

    /// Slots of a page.
    #[arg(long, value_name = "SLOTS", default_value_t = 16)]
    page_slots: usize,

    /// Runs of each, after one that is not counted.
    #[arg(long, value_name = "RUNS", default_value_t = 5)]
    repeat: usize,

    /// On a GPU, measure chunks with the kernels of GPUs other than Hopper.
    #[arg(long)]
    portable_kernels: bool,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &AttentionArgs) -> Result<()> {
    start_quiet_log();
    print_report(&measure(args)?, args.json)
}

/// The CPU computes in its default arithmetic then.
const ACTIVATION: DType = DType::Bf16;

fn measure(args: &AttentionArgs) -> Result<AttentionReport> {
    let cores = available_parallelism().map_or(1, usize::from);
    let mut device = TestedDevice::find(args.device, args.threads.unwrap_or(cores), None)?;
    if args.portable_kernels {
        device = device.with_portable_kernels()?;
    }
    // Sizes where none are given.
    let (model, keys, batches, chunk, plain) = match device {
        TestedDevice::Cpu { .. } => ("smollm2-135m", 4096, [8, 1], 128, RowFormat::F16),
        TestedDevice::Cuda { .. } => ("llama3-8b", 16384, [32, 1], 1024, RowFormat::Bf16),
    };
    let model = KnownShape::find(model).expect("both are known");
    let shape = args.shape(&model, keys, plain);
    let batches = args.batch.clone().unwrap_or(batches.to_vec());
    let chunk = args.chunk.unwrap_or(chunk);
    args.check(&shape, &batches, chunk)?;
    let ops = device.ops(ACTIVATION, [page_layout(&shape)])?;
    let mut steps: Vec<StepShape> =
        batches.iter().map(|&seqs| StepShape { seqs, rows: 1, ..shape }).collect();
    if chunk > 0 {
        steps.push(StepShape { seqs: 1, rows: chunk, ..shape });
    }
    let mut measurements = Vec::new();
    for step in steps {
        for &format in &args.format {
            for weights in [false, true] {
                let row_format = match format.quantiser() {
                    None => plain,
                    Some(quantiser) => RowFormat::Quantised(quantiser),
                };
                let step = StepShape { format: row_format, weights, ..step };
                let timing = time(&ops, &step, args.repeat)
                    .with_context(|| format!("{} with {}", step.name(), format.name()))?;
                measurements.push(Measurement::new(&step, format.name(), timing));
            }
        }
    }
    Ok(AttentionReport::new(device.name(), &shape, measurements))
}

fn time(ops: &Ops, shape: &StepShape, repeat: usize) -> Result<Timing> {
    let mut step = SlotStep::new(ops, shape)?;
    let layers = step.layers();
    Timing::measure(ops, repeat, layers, || (0..layers).for_each(|layer| step.attend(ops, layer)))
}

impl AttentionArgs {
    fn shape(&self, model: &KnownShape, keys: usize, plain: RowFormat) -> StepShape {
        StepShape {
            heads: self.heads.unwrap_or(model.heads),
            kv_heads: self.kv_heads.unwrap_or(model.kv_heads),
            head_dim: self.head_dim.unwrap_or(model.head_dim),
            keys: self.keys.unwrap_or(keys),
            page_slots: self.page_slots,
            seqs: 1,
            rows: 1,
            format: plain,
            weights: false,
        }
    }

    fn check(&self, shape: &StepShape, batches: &[usize], chunk: usize) -> Result<()> {
        let StepShape { heads, kv_heads, head_dim, keys, page_slots, .. } = *shape;
        let sizes = [heads, kv_heads, head_dim, keys, page_slots, self.repeat, self.format.len()];
        if sizes.contains(&0) || batches.contains(&0) {
            bail!("sizes must be 1 or more; only --chunk may be 0");
        }
        if !heads.is_multiple_of(kv_heads) {
            bail!("{heads} query heads cannot share {kv_heads} evenly");
        }
        if !head_dim.is_multiple_of(2) || head_dim > Ops::MAX_HEAD_DIM {
            bail!("--head-dim must be even and at most {}", Ops::MAX_HEAD_DIM);
        }
        if keys < chunk {
            bail!("a chunk of {chunk} rows does not fit into {keys} slots");
        }
        Ok(())
    }
}

fn format() -> impl TypedValueParser<Value = SlotFormat> {
    let named = |name: String| SlotFormat::named(&name).expect("one of the names");
    PossibleValuesParser::new(SlotFormat::names()).map(named)
}

/// Of the dense pages, of which there are none.
fn page_layout(shape: &StepShape) -> PageLayout {
    let StepShape { kv_heads, head_dim, .. } = *shape;
    PageLayout {
        layers: 1,
        kv_heads,
        page_tokens: 16,
        key_dim: head_dim,
        value_dim: head_dim,
        dtype: ACTIVATION,
    }
}

#[cfg(test)]
mod tests;

//! `terrace selftest`: does this machine compute what it should?

mod batch_mates;
mod golden;
mod golden_ctr;
mod golden_grad;
mod golden_hstu;
mod golden_kv;
mod golden_models;
mod golden_ropes;
mod kernels;
mod reference;
mod set_table;
pub mod tested_device;
mod torn_rows;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use terrace_engine::{DeviceChoice, Precision};
use terrace_kernels::CpuLevel;
use terrace_kernels::conformance::Extent;

use self::golden::GoldenPlan;
use self::kernels::{KernelPlan, Suite};
use self::reference::{CheckPrecision, ReferencePlan};
use self::tested_device::TestedDevice;

/// Check kernels and models on this machine against reference results.
///
/// Runs the conformance suite, which compares every kernel with its reference version: on the CPU
/// once for each set of instructions that it has, or on a GPU. Then an engine runs requests alone
/// and among others, which must give the same tokens. Run it on a new kind of machine before
/// you trust it. With --golden or --smollm2 it checks whole models instead, with --golden-kv
/// selective KV caches, with --golden-grad gradients through them, with --golden-hstu generative
/// recommenders and with --golden-ctr click-through models, against what other implementations
/// computed.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the tables:
  kernels     for each kernel, how many cases ran and failed, and the case whose error came nearest
              to its limit
  --golden    for each model, the largest difference of any logit at any position, over pages of 1,
              16 and 64 tokens, prompts whole and in chunks, alone and together; and whether the
              most probable continuations are equal. Arithmetic is in f32
  --golden-kv for each set of runs, how many cases and numbers were compared, and the largest
              difference; tokens that stay must be the same, unless scores were almost equal; what
              no kernel does is reported as left out
  --golden-grad
              the same for losses and gradients through such caches: the loss, and each gradient
              relative to its array's largest entry. CPU only
  --golden-hstu
              the same for each set of runs of HSTU attention, layers and models, in f32
  --golden-ctr
              the same for pooled rows, logits and probabilities of click-through models, and for
              their layers, in f32; weights by name and from HugeCTR's dense file must give the
              same bits
  --smollm2   how far the log-probabilities of the best five tokens are from the reference's

Examples:
  terrace selftest
  terrace selftest --device cpu --quick
  terrace selftest --device cuda:0 --suite gradients
  terrace selftest --golden testdata/llm
  terrace selftest --golden-kv testdata/kv --device cuda:0
  terrace selftest --golden-grad testdata/kv --device cuda:0
  terrace selftest --golden-hstu testdata/hstu --device cuda:0
  terrace selftest --golden-ctr testdata/ctr --golden-ctr testdata/ctr_layers --device cuda:0
  terrace selftest --torn-rows 1000000000 --device cuda:0 --threads 16
  terrace selftest --smollm2 testdata/llm/smollm2.json --model SmolLM2-135M-Instruct.Q4_1.gguf

The status is 1 if anything is not as it should be.")]
pub struct SelftestArgs {
    /// Which device to check: auto (the first GPU, or the CPU when there is none), cpu, or cuda:0.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,

    /// Run a small part of each suite, for use under a memory checker.
    #[arg(long)]
    quick: bool,

    /// Check these kernels only. May be given several times. Left out: all, and whether a row
    /// depends on the others of its batch.
    #[arg(long, value_name = "SUITE", value_enum)]
    suite: Vec<Suite>,

    /// Seed of the random inputs.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,

    /// Check the golden models in this folder: one, or a folder of them such as testdata/llm. May
    /// be given several times.
    #[arg(long, value_name = "FOLDER")]
    golden: Vec<PathBuf>,

    /// Check selective KV caches with the golden runs in this folder, such as testdata/kv. May
    /// be given several times.
    #[arg(long, value_name = "FOLDER")]
    golden_kv: Vec<PathBuf>,

    /// Check gradients through selective KV caches with the golden runs in this folder, such as
    /// testdata/kv. May be given several times.
    #[arg(long, value_name = "FOLDER")]
    golden_grad: Vec<PathBuf>,

    /// Check HSTU layers and models with the golden runs in this folder, such as testdata/hstu.
    /// May be given several times.
    #[arg(long, value_name = "FOLDER")]
    golden_hstu: Vec<PathBuf>,

    /// Check click-through models or their layers with the golden runs in this folder, such as
    /// testdata/ctr and testdata/ctr_layers. May be given several times.
    #[arg(long, value_name = "FOLDER")]
    golden_ctr: Vec<PathBuf>,

    /// Look so many rows up in hot caches of embedding tables while others write them, and count
    /// those that are a mixture of two. --threads says how many ask at once.
    #[arg(long, value_name = "COUNT")]
    torn_rows: Option<u64>,

    /// Check --model along the tokens that a reference run sampled, from this JSON file.
    #[arg(long, value_name = "FILE", requires = "model")]
    smollm2: Option<PathBuf>,

    /// The model of --smollm2: a GGUF file or a folder.
    #[arg(short, long, value_name = "PATH", requires = "smollm2")]
    model: Option<PathBuf>,

    /// Check the CPU with these instructions only: reference, avx2, avx512, avx512_vnni or amx.
    /// Left out: kernels with each that it has, models with the best.
    #[arg(long, value_name = "LEVEL", value_parser = level())]
    level: Option<CpuLevel>,

    /// Arithmetic of --smollm2: f32; or f16 or bf16, which on the CPU are its default arithmetic.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = CheckPrecision::F32)]
    precision: CheckPrecision,

    /// Largest mean difference that --smollm2 lets pass, in nats. Left out: 0.001 in f32, else
    /// 0.1.
    #[arg(long, value_name = "NATS")]
    mean_limit: Option<f64>,

    /// Largest single difference that --smollm2 lets pass, in nats. Left out: 0.001 in
    /// f32, else 0.3.
    #[arg(long, value_name = "NATS")]
    largest_limit: Option<f64>,
}

fn level() -> impl TypedValueParser<Value = CpuLevel> {
    PossibleValuesParser::new(CpuLevel::ALL.map(CpuLevel::name)).map(|name| {
        let known = CpuLevel::ALL.into_iter().find(|level| level.name() == name);
        known.expect("a possible value is a level")
    })
}

pub fn run(args: &SelftestArgs) -> Result<()> {
    let device = TestedDevice::find(args.device, args.threads, args.level)?;
    println!("device   {}", device.name());
    let of_caches = [&args.golden_kv, &args.golden_grad];
    let others = [&args.golden, &args.golden_hstu, &args.golden_ctr];
    let is_plain = args.smollm2.is_none() && args.torn_rows.is_none();
    if of_caches.iter().chain(&others).all(|folders| folders.is_empty()) && is_plain {
        let extent = if args.quick { Extent::Quick } else { Extent::Whole };
        let plan = KernelPlan { seed: args.seed, extent, suites: &args.suite };
        kernels::check(&device, &plan)?;
        if !args.quick && args.suite.is_empty() {
            let dtypes: &[Precision] = match device {
                TestedDevice::Cpu { .. } => &[Precision::Bf16],
                TestedDevice::Cuda { .. } => &[Precision::Bf16, Precision::Fp16],
            };
            for dtype in dtypes {
                batch_mates::check(args.device, *dtype, args.threads, args.seed)?;
            }
        }
        return Ok(());
    }
    if !args.golden.is_empty() {
        let plan = GoldenPlan { folders: &args.golden, quick: args.quick };
        println!("\n{}", golden::check(&device, &plan)?);
    }
    if !args.golden_kv.is_empty() {
        println!("\n{}", golden_kv::check(&device, args.device, &args.golden_kv)?);
    }
    if !args.golden_grad.is_empty() {
        println!("\n{}", golden_grad::check(&device, &args.golden_grad)?);
    }
    if !args.golden_hstu.is_empty() {
        println!("\n{}", golden_hstu::check(&device, &args.golden_hstu)?);
    }
    if !args.golden_ctr.is_empty() {
        println!("\n{}", golden_ctr::check(&device, &args.golden_ctr)?);
    }
    if let Some(rows) = args.torn_rows {
        torn_rows::check(&device, rows, args.seed)?;
    }
    if let (Some(reference), Some(model)) = (&args.smollm2, &args.model) {
        let plan = ReferencePlan {
            reference,
            model,
            precision: args.precision,
            mean_limit: args.mean_limit,
            largest_limit: args.largest_limit,
        };
        println!("\n{}", reference::check(&device, &plan)?);
    }
    Ok(())
}

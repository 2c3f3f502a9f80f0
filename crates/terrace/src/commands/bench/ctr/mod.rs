//! `terrace bench ctr`: how fast a click-through model predicts.

mod dlrm;
mod made_up_rows;
mod measured_model;
mod plain_dlrm;
mod report;
mod roofline;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use terrace_engine::DeviceChoice;

use self::dlrm::Dlrm;
use self::made_up_rows::start_tables;
use self::measured_model::MeasuredModel;
use self::report::CtrReport;
use self::roofline::Rates;
use crate::commands::print_report::print_report;
use crate::options::start_quiet_log;

/// Measure how fast a click-through model (DLRM) predicts on this machine.
///
/// The model has one table with --slots keys a sample, rows of --dim numbers and random weights: no
/// files are needed. All rows are in the table's hot cache on the device, and each batch asks for
/// random ones. Timed is what an instance does for a batch: from keys and dense features in host
/// memory to probabilities there. --repeat runs are counted, after ten that are not.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the table:
  p50, p99     of the runs of an instance
  served p50   through the model's queue and its instance's thread, one request after the other
  input        of the best run, until rows and features were together (0 where all is one graph)
  roofline     the longer of the bytes at --bandwidth and the operations at --tflops
  difference   of probabilities from those in f64, of up to 64 samples

Examples:
  terrace bench ctr
  terrace bench ctr --device cpu --batch 1024 --threads 2
  terrace bench ctr --device cuda:0 --precision mixed --bandwidth 4400 --tflops 660")]
pub struct CtrArgs {
    /// auto (the first GPU, or the CPU when there is none), cpu, or cuda:0.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,

    /// Samples of a batch, one or more sizes.
    #[arg(long, value_name = "SAMPLES", value_delimiter = ',', default_value = "32,1024,8192")]
    batch: Vec<usize>,

    /// Rows of the table.
    #[arg(long, value_name = "ROWS", default_value_t = 1_000_000)]
    rows: usize,

    /// Keys of a sample, one for each slot.
    #[arg(long, value_name = "COUNT", default_value_t = 26)]
    slots: usize,

    /// Numbers of a row.
    #[arg(long, value_name = "SIZE", default_value_t = 128)]
    dim: usize,

    /// Dense features of a sample.
    #[arg(long, value_name = "COUNT", default_value_t = 13)]
    dense: usize,

    /// Layers over the dense features; the last has --dim numbers.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "512,256,128")]
    bottom: Vec<usize>,

    /// Layers over the interaction; the last has the result.
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "1024,1024,512,256,1"
    )]
    top: Vec<usize>,

    /// f32; or mixed: GEMMs of 16 bits with f32 sums.
    #[arg(long, value_name = "TYPE", value_delimiter = ',', default_value = "f32,mixed")]
    precision: Vec<CtrPrecision>,

    /// Worker threads of the CPU. Left out: one for each processor.
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,

    /// GB/s of the device's memory, for the roofline.
    #[arg(long, value_name = "GB/S")]
    bandwidth: Option<f64>,

    /// TFLOP/s of the device's GEMMs, for the roofline.
    #[arg(long, value_name = "TFLOP/S")]
    tflops: Option<f64>,

    /// Folder to look for cuBLASLt in. May be given several times.
    #[arg(long, value_name = "FOLDER")]
    cuda_libs: Vec<PathBuf>,

    /// Runs of each measurement.
    #[arg(long, value_name = "RUNS", default_value_t = 100)]
    repeat: usize,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CtrPrecision {
    F32,
    Mixed,
}

impl CtrPrecision {
    fn name(self) -> &'static str {
        match self {
            CtrPrecision::F32 => "f32",
            CtrPrecision::Mixed => "mixed",
        }
    }
}

pub fn run(args: &CtrArgs) -> Result<()> {
    start_quiet_log();
    print_report(&measure(args)?, args.json)
}

fn measure(args: &CtrArgs) -> Result<CtrReport> {
    args.check()?;
    let gpu = args.device.find()?;
    let threads = args.threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
    let dlrm = Dlrm {
        slots: args.slots,
        dim: args.dim,
        dense: args.dense,
        bottom: args.bottom.clone(),
        top: args.top.clone(),
    };
    let largest = args.batch.iter().copied().max().expect("a batch was checked for");
    let tables = start_tables(&dlrm, args.rows, largest, gpu.as_ref())?;
    let network = Arc::new(dlrm.network()?);
    let mut rows = Vec::new();
    for precision in &args.precision {
        let is_mixed = *precision == CtrPrecision::Mixed;
        let setup = || {
            let (network, gpu) = (Arc::clone(&network), gpu.clone());
            let tables = tables.of(&network)?;
            let mut setup = dlrm.setup(network, tables, gpu, largest)?;
            setup.mixed_precision = is_mixed;
            setup.threads = threads;
            setup.cuda_libs.clone_from(&args.cuda_libs);
            Ok(setup)
        };
        let mut model = MeasuredModel::new(&dlrm, setup, args.rows)?;
        for &batch in &args.batch {
            let mut row = model.measure(batch, args.repeat)?;
            row.precision = precision.name();
            let weight_bytes = if is_mixed { 2 } else { 4 };
            row.roofline_us = args.rates().us(&dlrm, batch, weight_bytes);
            rows.push(row);
        }
    }
    Ok(CtrReport {
        device: match &gpu {
            Some(gpu) => format!("cuda:{} {}", gpu.ordinal, gpu.name),
            None => format!("cpu, {threads} threads"),
        },
        table_rows: args.rows,
        slots: args.slots,
        dim: args.dim,
        dense: args.dense,
        bottom: args.bottom.clone(),
        top: args.top.clone(),
        rows,
    })
}

impl CtrArgs {
    fn check(&self) -> Result<()> {
        let sizes = [self.rows, self.slots, self.dim, self.repeat];
        let layers = self.bottom.iter().chain(&self.top).chain(&self.batch);
        if sizes.iter().chain(layers).any(|size| *size == 0) {
            bail!("sizes must be 1 or more");
        }
        if self.dense == 0 || self.batch.is_empty() || self.top.is_empty() {
            bail!("a model needs dense features, layers in --top and a size in --batch");
        }
        if self.bottom.last() != Some(&self.dim) {
            bail!("the last layer of --bottom must have --dim {} numbers", self.dim);
        }
        Ok(())
    }

    fn rates(&self) -> Rates {
        Rates { gb_per_second: self.bandwidth, tflop_per_second: self.tflops }
    }
}

//! `terrace ps size`: what a configuration takes on each level, before it is started.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use terrace_embedding::{PlaceBudgets, Placement, PsConfig, TablePlan, TableSize};

use super::ps_file::read_ps_file;
use super::size_report::SizeReport;
use crate::byte_size::ByteSize;
use crate::commands::print_report::print_report;
use crate::open_folder::open_folder;

/// Say what tables take on each level, before anything is loaded.
///
/// Only the sizes of the tables' files are read. Device memory is exact: rows and index of each hot
/// cache. Host memory, Redis and disk are estimates, rather too high than too low.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the table:
  rows     of the files, without keys
  cache    device memory of the hot cache on each of the table's devices, with its index; behind +
           host memory that the device reads (embedding_cache_type uvm)
  ram      at most, when all rows are there or overflow_margin is reached; in brackets at the start
  redis    the same for one copy: entries, fields and values of Redis 7; replicas come on top
  disk     the persistent store after it was loaded; while it is loaded or compacted up to twice

Example:
  terrace ps size --ps ps.json
  terrace ps size --ps ps.json --json
  terrace ps size --ps auto.json --device-budget 60GiB --ram-budget 400GiB")]
pub struct SizeArgs {
    /// The configuration: a ps.json of HugeCTR.
    #[arg(long, value_name = "FILE")]
    ps: PathBuf,

    /// Device memory that tables may take, for a configuration with placement "auto".
    #[arg(long, value_name = "BYTES", requires = "ram_budget")]
    device_budget: Option<ByteSize>,

    /// Host memory that tables may take, for a configuration with placement "auto".
    #[arg(long, value_name = "BYTES", requires = "device_budget")]
    ram_budget: Option<ByteSize>,

    /// Print the sizes as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &SizeArgs) -> Result<()> {
    let config = read_ps_file(&args.ps)?;
    let budgets = budgets(args, &config)?;
    let (plans, warnings) = TablePlan::of_all(&config, None, &open_folder)?;
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    let tables = TableSize::of_all(&config, &plans, budgets)?;
    print_report(&SizeReport::new(&config, tables), args.json)
}

fn budgets(args: &SizeArgs, config: &PsConfig) -> Result<PlaceBudgets> {
    match (config.placement, args.device_budget, args.ram_budget) {
        (Placement::Auto, Some(device), Some(ram)) => {
            Ok(PlaceBudgets { device: device.0 as u64, ram: ram.0 as u64 })
        }
        (Placement::Auto, _, _) => bail!(
            "{} has placement \"auto\": say what it may take, as in --device-budget 60GiB \
             --ram-budget 400GiB",
            args.ps.display()
        ),
        (Placement::Configured, None, None) => Ok(PlaceBudgets { device: 0, ram: 0 }),
        (Placement::Configured, _, _) => bail!(
            "--device-budget and --ram-budget are for placement \"auto\", and {} says itself \
             where tables are",
            args.ps.display()
        ),
    }
}

//! `terrace bench ps`: how fast the levels of embedding tables give rows, each beside what bounds
//! it.

mod embedded_level;
mod gpu_cache;
mod gpu_level;
mod gpu_rates;
mod key_draw;
mod level_rows;
mod lookups;
mod ps_options;
mod ram_level;
mod redis_level;
mod report;
mod rocksdb_level;
mod split_batch;
mod stored_runs;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use terrace_engine::DeviceChoice;
use terrace_rocksdb::RocksLibrary;

use self::ps_options::MeasuredLevel;
pub use self::ps_options::PsArgs;
use self::report::PsReport;
use crate::commands::print_report::print_report;
use crate::options::start_quiet_log;

pub fn run(args: &PsArgs) -> Result<()> {
    start_quiet_log();
    print_report(&measure(args)?, args.json)
}

fn measure(args: &PsArgs) -> Result<PsReport> {
    args.check()?;
    let mut report = PsReport { levels: Vec::new(), gpu: None, left_out: Vec::new() };
    if args.measures(MeasuredLevel::Ram) {
        report.levels.push(ram_level::measure(args).context("ram")?);
    }
    if args.measures(MeasuredLevel::Redis) {
        match &args.redis {
            Some(nodes) => report.levels.push(redis_level::measure(args, nodes).context("redis")?),
            None => {
                let reason = "name the servers of a cluster with --redis HOST:PORT,...";
                leave_out(args, MeasuredLevel::Redis, reason, &mut report)?;
            }
        }
    }
    if args.measures(MeasuredLevel::Rocksdb) {
        match RocksLibrary::load(&[]) {
            Ok(library) => {
                let folder = own_folder(args)?;
                let measured = rocksdb_level::measure(args, &library, folder.path());
                report.levels.push(measured.context("rocksdb")?);
            }
            Err(error) => {
                leave_out(args, MeasuredLevel::Rocksdb, &error.to_string(), &mut report)?;
            }
        }
    }
    if args.measures(MeasuredLevel::Embedded) {
        let folder = own_folder(args)?;
        let measured = embedded_level::measure(args, folder.path());
        report.levels.push(measured.context("embedded")?);
    }
    if args.measures(MeasuredLevel::Gpu) {
        match args.device.find()? {
            Some(gpu) => report.gpu = Some(gpu_level::measure(args, &gpu).context("gpu")?),
            None => {
                let reason = match args.device {
                    DeviceChoice::Cpu => "--device cpu has none",
                    _ => "there is none that can be used",
                };
                leave_out(args, MeasuredLevel::Gpu, reason, &mut report)?;
            }
        }
    }
    Ok(report)
}

/// What was asked for by name is not left out.
fn leave_out(
    args: &PsArgs,
    level: MeasuredLevel,
    reason: &str,
    report: &mut PsReport,
) -> Result<()> {
    let name = level.name();
    if args.only.contains(&level) {
        bail!("--only {name}: {reason}");
    }
    report.left_out.push(format!("{name}: {reason}"));
    Ok(())
}

/// Removed when dropped.
fn own_folder(args: &PsArgs) -> Result<TempDir> {
    let base = args.folder.clone().unwrap_or_else(std::env::temp_dir);
    let named = tempfile::Builder::new().prefix("terrace-bench-ps-").tempdir_in(&base);
    named.with_context(|| format!("cannot make a folder in {}", base.display()))
}

#[cfg(test)]
mod tests;

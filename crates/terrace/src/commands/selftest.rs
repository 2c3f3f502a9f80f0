//! `terrace selftest`: do this machine's fast kernels compute what the plain ones do?

use anyhow::{Result, bail};
use clap::Args;
use terrace_kernels::{CpuLevel, CpuOps, CpuOptions, Ops, conformance};

/// Check that the fast kernels compute what the plain ones do, on this CPU.
///
/// Runs the conformance suite, which holds every kernel to its reference, once for each set of
/// instructions that this CPU has, and prints what it found. Run it on a new kind of machine before
/// you trust it.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the table: for each kernel, how many cases ran and failed, \
and the case whose error came nearest to its limit.")]
pub struct SelftestArgs {
    /// Seed of the random inputs.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

pub fn run(args: &SelftestArgs) -> Result<()> {
    let mut failed = 0;
    for level in CpuLevel::available() {
        let ops = CpuOps::new(CpuOptions { threads: args.threads, level: Some(level) })?;
        let report = conformance::run(&ops, args.seed);
        println!("{} (seed {}, {} threads)\n{report}", level.name(), args.seed, args.threads);
        let step = conformance::run_step(&Ops::Cpu(ops), args.seed);
        println!("{}, as a step uses them\n{step}", level.name());
        failed += report.failures().count() + step.failures().count();
    }
    if failed > 0 {
        bail!("{failed} cases failed; do not serve on this machine, and report the table above");
    }
    println!("all levels of this CPU compute what the reference does");
    Ok(())
}

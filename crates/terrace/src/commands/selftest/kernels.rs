//! Every kernel of a device against its plain version.

use anyhow::{Result, bail};
use terrace_kernels::conformance::{self, Extent, Report};
use terrace_kernels::{CpuLevel, CpuOps, CpuOptions, Ops};

use super::tested_device::TestedDevice;

pub fn check(device: &TestedDevice, seed: u64, quick: bool) -> Result<()> {
    let extent = if quick { Extent::Part } else { Extent::Whole };
    let mut failed = 0;
    let mut print = |name: &str, report: &Report| {
        println!("\n{name} (seed {seed})\n{report}");
        failed += report.failures().count();
    };
    match device {
        TestedDevice::Cpu { threads } => check_cpu(*threads, seed, extent, &mut print)?,
        TestedDevice::Cuda { device, .. } => {
            let report = conformance::run_cuda(device, seed, extent)?;
            print("kernels that only GPUs have", &report);
        }
    }
    if failed > 0 {
        bail!("{failed} cases failed; do not serve on this machine, and report the table above");
    }
    println!("all kernels compute what the reference does");
    Ok(())
}

fn check_cpu(
    threads: usize,
    seed: u64,
    extent: Extent,
    print: &mut impl FnMut(&str, &Report),
) -> Result<()> {
    for level in CpuLevel::available() {
        let name = level.name();
        let ops = CpuOps::new(CpuOptions { threads, level: Some(level) })?;
        print(&format!("{name}, {threads} threads"), &conformance::run(&ops, seed, extent));
        let step = conformance::run_step(&Ops::Cpu(ops), seed, extent);
        print(&format!("{name}, as a step uses them"), &step);
    }
    Ok(())
}

//! Every kernel of a device against its plain version.

use anyhow::{Result, bail};
use terrace_device::DType;
use terrace_kernels::conformance::{self, Extent, Report};
use terrace_kernels::{Compute, CpuLevel, CpuOps, CpuOptions, Ops, PageLayout};

use super::tested_device::{Attending, PAGES, TestedDevice};

pub fn check(device: &TestedDevice, seed: u64, quick: bool) -> Result<()> {
    let extent = if quick { Extent::Quick } else { Extent::Whole };
    let mut failed = 0;
    let mut print = |name: &str, report: &Report| {
        println!("\n{name} (seed {seed})\n{report}");
        failed += report.failures().count();
    };
    match device {
        TestedDevice::Cpu { threads, level } => {
            let levels = match level {
                Some(level) => vec![*level],
                None => CpuLevel::available(),
            };
            check_cpu(*threads, &levels, seed, extent, &mut print)?;
        }
        TestedDevice::Cuda { device, threads, .. } => {
            let report = conformance::run_cuda(device, seed, extent)?;
            print("kernels that only GPUs have", &report);
            let halves = [DType::Bf16, DType::F16].into_iter().flat_map(|half| {
                let ways = [Attending::Free, Attending::Deterministic, Attending::Portable];
                ways.map(|attending| (half, attending))
            });
            for (activation, attending) in [(DType::F32, Attending::Free)].into_iter().chain(halves)
            {
                let layout = PageLayout { dtype: activation, ..PAGES };
                let ops =
                    TestedDevice::cuda_ops(device, *threads, activation, [layout], attending)?;
                let name = format!("a step in {}, {attending:?}", activation.name());
                print(&name, &conformance::run_step(&ops, seed, extent));
                let name = format!("hstu in {}, {attending:?}", activation.name());
                print(&name, &conformance::run_hstu(&ops, seed, extent));
                if attending == Attending::Free {
                    let name = format!("click-through models in {}", activation.name());
                    print(&name, &conformance::run_ctr(&ops, seed, extent));
                }
                if attending != Attending::Deterministic {
                    let name = format!("gradients in {}, {attending:?}", activation.name());
                    print(&name, &conformance::run_tune(&ops, seed, extent)?);
                }
            }
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
    levels: &[CpuLevel],
    seed: u64,
    extent: Extent,
    print: &mut impl FnMut(&str, &Report),
) -> Result<()> {
    for &level in levels {
        let name = level.name();
        for compute in [Compute::F32, Compute::Fast] {
            let ops = CpuOps::new(CpuOptions { threads, level: Some(level), compute })?;
            if compute == Compute::F32 {
                print(&format!("{name}, {threads} threads"), &conformance::run(&ops, seed, extent));
            }
            let ops = Ops::from(ops);
            let step = conformance::run_step(&ops, seed, extent);
            print(&format!("{name}, as a step uses them, {compute:?}"), &step);
            let hstu = conformance::run_hstu(&ops, seed, extent);
            print(&format!("{name}, hstu, {compute:?}"), &hstu);
            let ctr = conformance::run_ctr(&ops, seed, extent);
            print(&format!("{name}, click-through models, {compute:?}"), &ctr);
            if compute == Compute::F32 {
                let tune = conformance::run_tune(&ops, seed, extent)?;
                print(&format!("{name}, gradients"), &tune);
            }
        }
    }
    Ok(())
}

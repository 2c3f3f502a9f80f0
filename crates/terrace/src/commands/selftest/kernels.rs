//! Every kernel of a device against its plain version.

use std::sync::Arc;

use anyhow::{Result, bail};
use clap::ValueEnum;
use terrace_device::DType;
use terrace_device::cuda::CudaDevice;
use terrace_kernels::conformance::{self, Extent, Report};
use terrace_kernels::{Compute, CpuLevel, CpuOps, CpuOptions, Ops, PageLayout};

use super::tested_device::{Attending, PAGES, TestedDevice};

/// Some of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// Each by itself; on a GPU, those that only GPUs have.
    Kernels,
    /// As a step of a language model uses them.
    Step,
    /// Of generative recommenders.
    Hstu,
    /// Of click-through models.
    Ctr,
    /// Of tuning.
    Gradients,
}

pub struct KernelPlan<'a> {
    pub seed: u64,
    pub extent: Extent,
    /// All, if it is empty.
    pub suites: &'a [Suite],
}

impl KernelPlan<'_> {
    fn has(&self, suite: Suite) -> bool {
        self.suites.is_empty() || self.suites.contains(&suite)
    }
}

pub fn check(device: &TestedDevice, plan: &KernelPlan<'_>) -> Result<()> {
    let mut failed = 0;
    let mut print = |name: &str, report: &Report| {
        println!("\n{name} (seed {})\n{report}", plan.seed);
        failed += report.failures().count();
    };
    match device {
        TestedDevice::Cpu { threads, level } => {
            let levels = match level {
                Some(level) => vec![*level],
                None => CpuLevel::available(),
            };
            check_cpu(*threads, &levels, plan, &mut print)?;
        }
        TestedDevice::Cuda { device, threads, .. } => {
            check_cuda(device, *threads, plan, &mut print)?;
        }
    }
    if failed > 0 {
        bail!("{failed} cases failed; do not serve on this machine, and report the table above");
    }
    println!("all kernels compute what the reference does");
    Ok(())
}

fn check_cuda(
    device: &Arc<CudaDevice>,
    threads: usize,
    plan: &KernelPlan<'_>,
    print: &mut impl FnMut(&str, &Report),
) -> Result<()> {
    let KernelPlan { seed, extent, .. } = *plan;
    if plan.has(Suite::Kernels) {
        let report = conformance::run_cuda(device, seed, extent)?;
        print("kernels that only GPUs have", &report);
    }
    let halves = [DType::Bf16, DType::F16].into_iter().flat_map(|half| {
        let ways = [Attending::Free, Attending::Deterministic, Attending::Portable];
        ways.map(|attending| (half, attending))
    });
    for (activation, attending) in [(DType::F32, Attending::Free)].into_iter().chain(halves) {
        let layout = PageLayout { dtype: activation, ..PAGES };
        let ops = TestedDevice::cuda_ops(device, threads, activation, [layout], attending)?;
        let name = |what: &str| format!("{what} in {}, {attending:?}", activation.name());
        if plan.has(Suite::Step) {
            print(&name("a step"), &conformance::run_step(&ops, seed, extent));
        }
        if plan.has(Suite::Hstu) {
            print(&name("hstu"), &conformance::run_hstu(&ops, seed, extent));
        }
        if plan.has(Suite::Ctr) && attending == Attending::Free {
            print(&name("click-through models"), &conformance::run_ctr(&ops, seed, extent));
        }
        if plan.has(Suite::Gradients) && attending != Attending::Deterministic {
            print(&name("gradients"), &conformance::run_tune(&ops, seed, extent)?);
        }
    }
    Ok(())
}

fn check_cpu(
    threads: usize,
    levels: &[CpuLevel],
    plan: &KernelPlan<'_>,
    print: &mut impl FnMut(&str, &Report),
) -> Result<()> {
    let KernelPlan { seed, extent, .. } = *plan;
    for &level in levels {
        let name = level.name();
        for compute in [Compute::F32, Compute::Fast] {
            let ops = CpuOps::new(CpuOptions { threads, level: Some(level), compute })?;
            if plan.has(Suite::Kernels) && compute == Compute::F32 {
                print(&format!("{name}, {threads} threads"), &conformance::run(&ops, seed, extent));
            }
            let ops = Ops::from(ops);
            if plan.has(Suite::Step) {
                let step = conformance::run_step(&ops, seed, extent);
                print(&format!("{name}, as a step uses them, {compute:?}"), &step);
            }
            if plan.has(Suite::Hstu) {
                let hstu = conformance::run_hstu(&ops, seed, extent);
                print(&format!("{name}, hstu, {compute:?}"), &hstu);
            }
            if plan.has(Suite::Ctr) {
                let ctr = conformance::run_ctr(&ops, seed, extent);
                print(&format!("{name}, click-through models, {compute:?}"), &ctr);
            }
            if plan.has(Suite::Gradients) && compute == Compute::F32 {
                let tune = conformance::run_tune(&ops, seed, extent)?;
                print(&format!("{name}, gradients"), &tune);
            }
        }
    }
    Ok(())
}

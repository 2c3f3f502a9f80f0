//! The ops of tests: in f32, on one thread.

use terrace_kernels::{Compute, CpuOptions, Ops};

pub(crate) fn exact_ops() -> Ops {
    Ops::cpu(CpuOptions { threads: 1, level: None, compute: Compute::F32 }).expect("ops of the CPU")
}

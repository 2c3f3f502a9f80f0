//! The ops as their users see them.

mod batch_invariance;
mod chunks;
mod conformance;
mod doors;
mod panels;
mod ptx;
mod quantise;

use terrace_kernels::{Compute, CpuLevel, CpuOps, CpuOptions};

/// One table for each level of this processor, with its default arithmetic.
fn every_level(threads: usize) -> impl Iterator<Item = CpuOps> {
    CpuLevel::available().into_iter().map(move |level| {
        CpuOps::new(CpuOptions { threads, level: Some(level), compute: Compute::Fast })
            .expect("the level is available")
    })
}

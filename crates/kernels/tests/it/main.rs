//! The ops as their users see them.

mod argument_checks;
mod batch_invariance;
mod chunks;
mod conformance;
mod finite_differences;
mod panels;
mod ptx;
mod quantise;

use proptest::prelude::*;
use terrace_kernels::{Compute, CpuLevel, CpuOps, CpuOptions, WeightFormat};

/// One table for each level of this processor, with its default arithmetic.
fn every_level(threads: usize) -> impl Iterator<Item = CpuOps> {
    CpuLevel::available().into_iter().map(move |level| {
        CpuOps::new(CpuOptions { threads, level: Some(level), compute: Compute::Fast })
            .expect("the level is available")
    })
}

/// A format, and the rows and columns of a matrix of it.
fn any_matrix() -> impl Strategy<Value = (WeightFormat, usize, usize)> {
    let formats = prop::sample::select(WeightFormat::ALL.to_vec());
    (formats, 1usize..70, 1usize..6, 0usize..40).prop_map(|(format, rows, blocks, odd)| {
        let columns = match format.block_weights() {
            1 => 20 * blocks + odd,
            block => block * blocks,
        };
        (format, rows, columns)
    })
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

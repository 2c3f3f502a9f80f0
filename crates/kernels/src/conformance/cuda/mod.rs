//! Kernels of a GPU that the CPU has no op for: gates by themselves, sampling, random numbers,
//! look-ups of embedding rows, and moves to and from the host.

mod gather;
mod pool_cached;
mod rows;
mod sample;
mod torn_rows;

pub use torn_rows::{TornRows, torn_rows};

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, Device};

use super::placed::Placed;
use super::{Extent, Report, SplitMix, moves};
use crate::elementwise::gate::cuda::GateKernel;
use crate::error::Error;
use crate::gather::gather_ops::GatherOps;
use crate::random::fill_random::cuda::FillRandomKernels;
use crate::sampling::{SampleKernel, SampleRow};

pub fn run_cuda(device: &Arc<CudaDevice>, seed: u64, extent: Extent) -> Result<Report, Error> {
    let mut random = SplitMix::new(seed);
    let mut report = Report::new(extent);
    let home = Device::Cuda(Arc::clone(device));
    for activation in [DType::F32, DType::F16, DType::Bf16] {
        let kernel = GateKernel::load(device, activation)?;
        rows::gate(&kernel, &home, activation, &mut random, &mut report);
    }
    rows::fill_random(&FillRandomKernels::load(device)?, &home, &mut random, &mut report);
    moves::check(&home, &mut random, &mut report)?;
    gather::check(device, &mut random, &mut report)?;
    pool_cached::check(&GatherOps::new(device)?, &home, &mut random, &mut report)?;
    let kernel = SampleKernel::load(device, sample::VOCABS[sample::VOCABS.len() - 1])?;
    sample::check(&mut random, &mut report, |logits, rows| {
        let (picks, untouched) = (rows.len(), vec![sample::UNTOUCHED; rows.len()]);
        let rows: Vec<u8> = rows.iter().flat_map(|row| row.to_bytes()).collect();
        let rows = Placed::of(&home, &rows, [picks, SampleRow::BYTES]);
        let logits = Placed::of(&home, logits.as_slice::<f32>(), logits.shape());
        let mut ids = Placed::of(&home, &untouched, [picks]);
        kernel.sample(logits.view(), rows.view(), ids.view_mut());
        ids.to_ids()
    });
    Ok(report)
}

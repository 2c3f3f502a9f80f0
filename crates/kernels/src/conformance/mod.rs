//! Holds the ops of a table to their references.
//!
//! Every op runs over odd sizes, every dtype and format, strided rows and poisoned outputs, with
//! fresh numbers from a seed. [`run`] holds the CPU's ops one by one, [`run_step`] those that a
//! step of a model is made of, on any device, [`run_hstu`] those of HSTU models, [`run_ctr`] those
//! of click-through models, [`run_tune`] those that models are tuned with, and [`run_cuda`] those
//! that only GPUs have. The tests of this crate
//! run all but the last for each level of the
//! processor; `terrace selftest` runs them where the program is going to serve.

mod attention;
mod copies;
mod ctr;
mod cuda;
mod extent;
mod hstu;
mod kv_case;
mod moves;
mod numbers;
mod page_bytes;
mod placed;
mod products;
mod report;
mod rows;
mod slot_case;
mod step;
mod tune;

pub use ctr::run_ctr;
pub use cuda::{TornRows, run_cuda, torn_rows};
pub use extent::Extent;
pub use hstu::run_hstu;
pub use kv_case::{KvCase, KvSpec};
pub use products::matrix;
pub use report::{Case, Report};
pub use step::run_step;
pub use tune::run_tune;

use terrace_device::Device;

use crate::cpu_ops::CpuOps;
use crate::random::SplitMix;

/// Sizes around the widths of vectors and tiles.
const SIZES: [usize; 12] = [1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 100, 127];

pub fn run(ops: &CpuOps, seed: u64, extent: Extent) -> Report {
    let mut random = SplitMix::new(seed);
    let mut report = Report::new(extent);
    products::check(ops, &mut random, &mut report);
    rows::check(ops, &mut random, &mut report);
    copies::check(&mut random, &mut report);
    moves::check(&Device::Cpu, &mut random, &mut report).expect("host memory suffices");
    attention::check(ops, &mut random, &mut report);
    report
}

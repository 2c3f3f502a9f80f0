//! The ops of HSTU models, on whatever device they compute.
//!
//! Inputs are rounded to the type of activations before anything is computed from them. Rows of all
//! tensors are strided in some cases, results are poisoned, and so is every slot that no row sees.

mod attend;
mod cached;
mod hstu_case;
mod hstu_run;
mod items;
mod norms;
mod rows;
mod spans;
mod step_rows;

use super::{Extent, Report, SplitMix};
use crate::ops::Ops;

pub fn run_hstu(ops: &Ops, seed: u64, extent: Extent) -> Report {
    let mut random = SplitMix::new(seed);
    let mut report = Report::new(extent);
    norms::check(ops, &mut random, &mut report);
    rows::check(ops, &mut random, &mut report);
    items::check(ops, &mut random, &mut report);
    step_rows::check(ops, &mut random, &mut report);
    attend::check(ops, &mut random, &mut report);
    cached::check(ops, &mut random, &mut report);
    report
}

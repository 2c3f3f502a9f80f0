//! The ops of click-through models, on whatever device they compute.
//!
//! Inputs are rounded to the type of activations before anything is computed from them. Rows of
//! inputs and results are column ranges of wider tensors in some cases; results are poisoned, and
//! so is what lies beside them, which must stay so.

mod case_rows;
mod crosses;
mod pooling;
mod products;
mod rows;
mod sequences;

use super::{Extent, Report, SplitMix};
use crate::ops::Ops;

pub fn run_ctr(ops: &Ops, seed: u64, extent: Extent) -> Report {
    let mut random = SplitMix::new(seed);
    let mut report = Report::new(extent);
    products::check(ops, &mut random, &mut report);
    rows::check(ops, &mut random, &mut report);
    crosses::check(ops, &mut random, &mut report);
    sequences::check(ops, &mut random, &mut report);
    pooling::check(ops, &mut random, &mut report);
    report
}

//! The ops that a model's step is made of, on whatever device they compute.
//!
//! Inputs are rounded to the type of activations before anything is computed from them, so that
//! what is compared is the arithmetic. Results in f16 or bf16 may be off by their last rounding.

mod attend;
mod branches;
mod placed_norms;
mod products;
mod read_rope;
mod rows;
mod slot_cuts;
mod slot_layer;
mod slots;

use super::{Extent, Report, SplitMix};
use crate::ops::{Ops, Table};

pub fn run_step(ops: &Ops, seed: u64, extent: Extent) -> Report {
    let mut random = SplitMix::new(seed);
    let mut report = Report::new(extent);
    products::check(ops, &mut random, &mut report);
    branches::check(ops, &mut random, &mut report);
    rows::check(ops, &mut random, &mut report);
    attend::check(ops, &mut random, &mut report);
    slots::check(ops, &mut random, &mut report);
    if matches!(ops.table, Table::Cpu(_)) {
        slot_cuts::check(ops, &mut random, &mut report);
    }
    attend::check_pure(ops, &mut random, &mut report);
    report
}
